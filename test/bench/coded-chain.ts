/**
 * A chain of fine-tunes of a MobileNetV2-sized model in delta encoding. Every changed tensor is encoded
 * against the version before it, as a device sends it. It is then received as a server receives it that holds
 * the versions before (decoded, compared with its id, stored as it came, recorded), and recovered from a newly
 * opened repository, which has decoded nothing yet.
 * Each time comes with its floor: the work that the raw form needs too, plus the codec's time for the same
 * bytes in memory, measured in the same step. Garbage collection is not forced: the code that runs after a
 * forced collection takes half as long again, which would favour the floors, as they are almost only codec.
 * After eight steps a chain restarts with raw tensors.
 */
import { mkdtemp, open } from "node:fs/promises";
import { join } from "node:path";
import { keyframeDepth, putReceivedTensors } from "../../server/fleet/ingest/uploads/coded-tensors.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { EncodedTensor } from "../../shared/delta/encoded.js";
import type { TensorEncoding } from "../../shared/objects/object-store.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import { openTensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { ReceivedObject } from "../../shared/wire/transfer/stream.js";
import { fineTuned, weights } from "../helpers/related-tensors.js";
import { mobileNetShapes } from "./model-shapes.js";
import { median, recoverFloor, saveFloor, spent, type Cost, type Named } from "./save-floors.js";

export interface CodedStep {
  readonly depth: number;
  /** Bytes of the changed tensors, raw and encoded. */
  readonly changedBytes: number;
  readonly codedBytes: number;
  /** The codec alone on the changed tensors, in memory. */
  readonly encode: Cost;
  readonly decode: Cost;
  /** The device's encoding, and the server's work until the version is recorded. */
  readonly code: Cost;
  readonly takeIn: Cost;
  /** SHA-256 of the changed bytes and an fsynced write of the encoded ones. */
  readonly saveFloor: Cost;
  readonly recover: Cost;
  readonly recoverFloor: Cost;
  /** Bytes that a recovery decodes, as a multiple of the bytes that the step changed. */
  readonly decodings: number;
}

interface OpenedRepository {
  readonly repository: FleetRepository;
  close(): Promise<void>;
}
async function openWithHome(path: string): Promise<OpenedRepository> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "local");
  return {
    repository,
    close: async () => {
      await repository.close();
      await home.close();
    },
  };
}

interface Change {
  readonly id: Hash;
  readonly baseId: Hash;
  readonly tensor: Named;
  readonly base: Named;
}

/** The next version: every tensor changed a little, or only the last two. */
function nextOf(
  tensors: readonly Named[],
  partial: boolean,
  step: number,
): { readonly tensors: readonly Named[]; readonly changes: readonly Change[] } {
  const next = tensors.map((tensor, i) =>
    partial && i < tensors.length - 2
      ? tensor
      : { name: tensor.name, ...fineTuned(tensor, 2e-4, 1000 * step + i) },
  );
  const changes = next.flatMap((tensor, i) =>
    tensor === tensors[i]
      ? []
      : [
          {
            tensor,
            base: tensors[i]!,
            id: tensorId(tensor, tensor.bytes),
            baseId: tensorId(tensors[i]!, tensors[i]!.bytes),
          },
        ],
  );
  return { tensors: next, changes };
}

function encodeAll(codec: DeltaCodec, changes: readonly Change[]): readonly EncodedTensor[] {
  return changes.map(({ tensor, base }) => codec.encodeTensor(tensor, tensor.bytes, { base }));
}

/** What a device sends, as the server reads it from the stream. */
async function* received(
  changes: readonly Change[],
  encoded: readonly EncodedTensor[],
): AsyncIterable<ReceivedObject> {
  for (const [i, { tensor, id, baseId }] of changes.entries()) {
    const { code, bytes, against } = encoded[i]!;
    const { dtype, shape } = tensor;
    const ref = { kind: "tensor" as const, id, byteLength: tensor.bytes.length };
    yield await Promise.resolve(
      code === 0
        ? { kind: "tensor", ref, source: sourceOfTensor({ dtype, shape, bytes }) }
        : {
            kind: "coded",
            ref,
            header: { dtype, shape },
            encoding: { code, byteLength: bytes.length, ...(against.base ? { against: baseId } : {}) },
            read: () => Promise.resolve(bytes),
          },
    );
  }
}

interface Upload {
  readonly server: FleetRepository;
  readonly device: FleetRepository;
  readonly versionId: Hash;
  readonly changes: readonly Change[];
  readonly encoded: readonly EncodedTensor[];
}
/**
 * Does what ingest does after the last block: writes one pack with the tensors and the small objects, then
 * the fact.
 */
async function receive({ server, device, versionId, changes, encoded }: Upload): Promise<void> {
  const smallObjects = await Promise.all(
    smallObjectsOf(device.get(versionId)!.record).map(async ({ kind, id }) => ({
      kind,
      bytes: await device.objects.read(kind, id),
    })),
  );
  const recordBytes = await device.objects.read("record", versionId);
  const pack = await server.objects.begin();
  const coder = openTensorCoder(0);
  await putReceivedTensors(pack, server.objects, coder, received(changes, encoded));
  for (const { kind, bytes } of smallObjects) await pack.put(kind, bytes);
  await pack.put("record", recordBytes);
  await pack.commit();
  await server.record(recordBytes);
  await coder.close();
}

/** Bytes that a recovery of these tensors decodes, including the bases in their chains. */
function decodedBytes(server: FleetRepository, tensors: Iterable<Hash>): number {
  let bytes = 0;
  for (const tensor of tensors)
    for (let current: Hash | undefined = tensor; current !== undefined;) {
      const encoding: TensorEncoding = server.objects.encodingOf(current)!;
      if (encoding.code !== 0) bytes += server.objects.stat(current)!.byteLength;
      current = encoding.base;
    }
  return bytes;
}

interface Chain {
  readonly folder: string;
  readonly codec: DeltaCodec;
  readonly partial: boolean;
  readonly device: FleetRepository;
  readonly server: FleetRepository;
}
type Saved = Omit<CodedStep, "recover" | "recoverFloor" | "decodings"> & {
  readonly versionId: Hash;
  readonly tensors: readonly Named[];
};

/** The next version: created and saved on the device, then encoded, and received by the server. */
async function saveStep(
  { folder, codec, partial, device, server }: Chain,
  before: Pick<Saved, "versionId" | "tensors">,
  depth: number,
): Promise<Saved> {
  const { tensors, changes } = nextOf(before.tensors, partial, depth);
  const { versionId } = (
    await device.save(opaqueModelSource(tensors), { name: "m", bases: [before.versionId] })
  ).summary;
  let encoded = encodeAll(codec, changes);
  const encode = await spent(() => {
    encodeAll(codec, changes);
  });
  const decode = await spent(() => {
    changes.forEach(({ tensor, base }, i) =>
      codec.decodeTensor(tensor, encoded[i]!, { base }, tensor.bytes.length),
    );
  });
  const floor = await spent(() =>
    saveFloor(
      folder,
      changes.map(({ tensor }) => tensor),
      encoded,
    ),
  );
  const code = await spent(() => {
    encoded = encodeAll(codec, changes);
  });
  const takeIn = await spent(() => receive({ server, device, versionId, changes, encoded }));
  const changedBytes = changes.reduce((sum, { tensor }) => sum + tensor.bytes.length, 0);
  const codedBytes = encoded.reduce((sum, { bytes }) => sum + bytes.length, 0);
  return {
    depth,
    versionId,
    tensors,
    changedBytes,
    codedBytes,
    encode,
    decode,
    code,
    takeIn,
    saveFloor: floor,
  };
}

const openings = 3;

/**
 * Recovers from a repository that has decoded nothing yet and is completely in the operating system's cache.
 * Medians over several openings.
 */
async function recoverStep(
  path: string,
  cached: string,
  { tensors: _, versionId, ...saved }: Saved,
): Promise<CodedStep> {
  const floors: Cost[] = [];
  const recoveries: Cost[] = [];
  let decodings = 0;
  for (let opening = 0; opening <= openings; opening++) {
    const server = await openWithHome(path);
    const floor = await spent(() => recoverFloor(cached));
    const recover = await spent(() => server.repository.recover(versionId));
    if (opening > 0) {
      floors.push(floor);
      recoveries.push(recover);
    }
    decodings =
      decodedBytes(
        server.repository,
        new Set((await server.repository.leaves(versionId)).map(({ tensor }) => tensor)),
      ) / saved.changedBytes;
    await server.close();
  }
  const medianCost = (costs: readonly Cost[]): Cost => ({
    clockMs: median(costs.map(({ clockMs }) => clockMs)),
    processorMs: median(costs.map(({ processorMs }) => processorMs)),
  });
  return { ...saved, recover: medianCost(recoveries), recoverFloor: medianCost(floors), decodings };
}

export async function measureCodedChain(
  within: string,
  partial: boolean,
  depth: number,
): Promise<readonly CodedStep[]> {
  const codec = await loadDeltaCodec();
  const folder = await mkdtemp(join(within, "chain-"));
  const cached = join(folder, "cached");
  const tensors = mobileNetShapes().map((shape, i): Named => ({
    name: `t${String(i).padStart(3, "0")}`,
    ...weights(shape, i + 1),
  }));
  const device = await openWithHome(join(folder, "device"));
  const server = await openWithHome(join(folder, "server"));
  const { versionId } = (await device.repository.save(opaqueModelSource(tensors), { name: "m" })).summary;
  await receive({
    server: server.repository,
    device: device.repository,
    versionId,
    changes: tensors.map((tensor) => {
      const id = tensorId(tensor, tensor.bytes);
      return { tensor, base: tensor, id, baseId: id };
    }),
    encoded: tensors.map(({ bytes }) => ({
      code: 0,
      bytes,
      against: { base: false, previous: false },
    })),
  });
  const file = await open(cached, "w");
  for (const { bytes } of tensors) await file.write(bytes);
  await file.close();
  const chain = { folder, codec, partial, device: device.repository, server: server.repository };
  const saved: Saved[] = [];
  let before: Pick<Saved, "versionId" | "tensors"> = { versionId, tensors };
  for (let step = 1; step <= depth; step++) {
    const now = await saveStep(chain, before, step);
    saved.push(now);
    before = now;
  }
  await server.close();
  await device.close();
  const steps: CodedStep[] = [];
  for (const each of saved) steps.push(await recoverStep(join(folder, "server"), cached, each));
  return steps;
}

type Clock = keyof Cost;
type Ratio = (step: CodedStep, by: Clock) => number;
const ratios: Readonly<Record<string, Ratio>> = {
  /**
   * Encoding by the device and receiving by the server. `save` counts the server's proof of every tensor (a
   * decoding) in the floor; `saveProofExtra` does not.
   */
  save: ({ code, takeIn, saveFloor: floor, encode, decode }, by) =>
    (code[by] + takeIn[by]) / (floor[by] + encode[by] + decode[by]),
  saveProofExtra: ({ code, takeIn, saveFloor: floor, encode }, by) =>
    (code[by] + takeIn[by]) / (floor[by] + encode[by]),
  takeIn: ({ takeIn, saveFloor: floor, decode }, by) => takeIn[by] / (floor[by] + decode[by]),
  recover: ({ recover, recoverFloor: floor, decode, decodings }, by) =>
    recover[by] / (floor[by] + decodings * decode[by]),
};

/**
 * Medians over the steps' ratios, by the clock and by processor time (which other work on the machine
 * disturbs less). Each ratio compares times of one step.
 */
export function codedFigures(steps: readonly CodedStep[]): Readonly<Record<string, number>> {
  const medianOf = (value: (step: CodedStep) => number, chosen = steps): number => median(chosen.map(value));
  const deepest = Math.min(keyframeDepth, Math.max(...steps.map(({ depth }) => depth)));
  const figures: Record<string, number> = {
    megabytes: medianOf(({ changedBytes }) => changedBytes) / 1e6,
    codedShare: medianOf(({ codedBytes, changedBytes }) => codedBytes / changedBytes),
    encodeMs: medianOf(({ encode }) => encode.processorMs),
    decodeMs: medianOf(({ decode }) => decode.processorMs),
    takeInMs: medianOf(({ takeIn }) => takeIn.clockMs),
  };
  for (const [name, ratio] of Object.entries(ratios))
    for (const [by, suffix] of [
      ["clockMs", ""],
      ["processorMs", "Processor"],
    ] as const)
      figures[`${name}Ratio${suffix}`] = medianOf((step) => ratio(step, by));
  for (const depth of new Set([1, deepest])) {
    const stepsAtDepth = steps.filter((step) => step.depth === depth);
    figures[`recoverMsDepth${depth}`] = medianOf(({ recover }) => recover.clockMs, stepsAtDepth);
    figures[`recoverRatioProcessorDepth${depth}`] = medianOf(
      (step) => ratios["recover"]!(step, "processorMs"),
      stepsAtDepth,
    );
  }
  return figures;
}
