/** Recovers a LoRA adapter merged into its base: two recoveries, and the computation where the command runs. */
import { StemmaError } from "../../shared/errors.js";
import { adapterConfigName, readAdapterConfig } from "../../shared/forms/peft/adapter-config.js";
import { mergedChunks, type AdapterTensor } from "../../shared/forms/peft/merge-lora.js";
import { parseSafetensorsHeader } from "../../shared/tensor/safetensors-header.js";
import type { OperationInput, ProvenStream, RecoveryStream } from "../interface/api/server-operations.js";
import type { ModelDescription } from "../interface/api/models/version-schemas.js";
import type { CommandContext } from "./context.js";
import { nameOf } from "./version-text.js";

/** An adapter is in memory while it is merged. */
const maxAdapterBytes = 2 ** 31;

type NamedVersion = Pick<ModelDescription, "versionId" | "name" | "version">;

/** The report of a merged model: it is a file, and not a version. */
export interface MergedReport extends NamedVersion {
  readonly base: NamedVersion;
  /** Tensors of the file, and how many of them the adapter changes. */
  readonly tensors: number;
  readonly changed: number;
  readonly byteLength: number;
}

/**
 * @returns the merged model as one safetensors file, which is right where the report resolves
 * @throws NOT_ALLOWED where it is not an adapter with a base; what recovering either throws
 */
export async function mergedStream(
  reference: string,
  environment: OperationInput<"recover">["environment"],
  { operations, options: { fleet }, signal }: CommandContext,
): Promise<ProvenStream<MergedReport>> {
  const opened = await operations();
  const found = await opened.model({ fleet, model: reference });
  const settings = settingsHash(found);
  const base = await adaptedModel(found, (model) => opened.model({ fleet, model }));
  if (settings === undefined || base === undefined) throw notAdapter(found, settings !== undefined);
  const { base64 } = await opened.attachment({ fleet, model: found.versionId, file: adapterConfigName });
  const config = readAdapterConfig(Buffer.from(base64, "base64"), `${nameOf(found)}, ${adapterConfigName}`);
  const recover = ({ versionId }: NamedVersion): Promise<RecoveryStream> =>
    opened.recover({ fleet, model: versionId, environment, story: "omit" }, { signal });
  const adapter = tensorsIn(await inMemory(await recover(found), nameOf(found)), nameOf(found));
  const whole = await recover(base);
  let changed = 0;
  const report = whole.report.then(({ tensors, byteLength }) => ({
    ...named(found),
    base: named(base),
    tensors,
    changed,
    byteLength,
  }));
  report.catch(() => undefined); // its reader may come later, or never
  return {
    byteLength: whole.byteLength,
    expected: {
      ...named(found),
      base: named(base),
      tensors: whole.expected.tensors,
      changed,
      byteLength: whole.byteLength,
    },
    report,
    chunks: mergedChunks({
      base: whole.chunks,
      byteLength: whole.byteLength,
      adapter,
      config,
      signal,
      onPairs: (count) => (changed = count),
    }),
  };
}

function named({ versionId, name, version }: NamedVersion): NamedVersion {
  return { versionId, name, version };
}

function settingsHash({ record }: ModelDescription): string | undefined {
  return record.objects.attachments?.find(({ name }) => name === adapterConfigName)?.hash;
}

/** The model below a series of adapters, of which each was trained from the one before. */
async function adaptedModel(
  adapter: ModelDescription,
  open: (versionId: string) => Promise<ModelDescription>,
): Promise<ModelDescription | undefined> {
  let at: ModelDescription | undefined = adapter;
  while (at !== undefined && settingsHash(at) !== undefined) {
    const before: string | undefined = at.record.bases[0];
    at = before === undefined ? undefined : await open(before);
  }
  return at;
}

function notAdapter(found: NamedVersion, hasSettings: boolean): StemmaError {
  return new StemmaError(
    "NOT_ALLOWED",
    hasSettings
      ? `${nameOf(found)} is an adapter without a base here, so it cannot be merged. Import its base, and the adapter again with --base.`
      : `${nameOf(found)} is not a LoRA adapter with its ${adapterConfigName}, so there is nothing to merge. Leave out --merged.`,
  );
}

async function inMemory({ chunks, byteLength, report }: RecoveryStream, name: string): Promise<Uint8Array> {
  report.catch(() => undefined);
  if (byteLength > maxAdapterBytes)
    throw new StemmaError(
      "NOT_ALLOWED",
      `${name} has ${byteLength} bytes, and adapters up to ${maxAdapterBytes} are merged. Recover base and adapter, and merge them with peft.`,
    );
  const bytes = new Uint8Array(byteLength);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  await report;
  return bytes;
}

function tensorsIn(bytes: Uint8Array, where: string): readonly AdapterTensor[] {
  const dataStart = 8 + Number(Buffer.from(bytes.buffer, 0, 8).readBigUInt64LE(0));
  const { tensors } = parseSafetensorsHeader(bytes.subarray(8, dataStart), bytes.length - dataStart, where);
  return tensors.map(({ name, dtype, shape, begin, end }) => ({
    name,
    dtype,
    shape,
    bytes: bytes.subarray(dataStart + begin, dataStart + end),
  }));
}
