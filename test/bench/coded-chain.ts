/**
 * A chain of fine-tunes of a MobileNetV2-sized model in coded form: every changed tensor is coded against
 * the version before it, as a device sends it, taken in as a server does (decoded, compared with its id,
 * stored as it came, recorded) that took in the versions before, and recovered from a repository opened
 * anew, which has decoded nothing yet.
 * Beside each time its floor: what the raw form cannot do without, plus what the codec takes for the same
 * bytes in memory, measured in the same step. Nothing is collected by force: what runs
 * after that takes half as long again, and floors, which are little else than the codec, would profit. After
 * eight steps a chain begins anew with raw tensors.
 */
import { mkdtemp, open } from "node:fs/promises";
import { join } from "node:path";
import { keyframeDepth, putReceivedTensors } from "../../server/ingest/coded-tensors.js";
import type { FleetRepository } from "../../server/repository/fleet-repository.js";
import { openNodeHome } from "../../server/repository/node-home.js";
import { openRepository } from "../../server/repository/open-repository.js";
import type { EncodedTensor } from "../../shared/delta/encoded.js";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, type Hash } from "../../shared/tensor/tensor.js";
import { openTensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { ReceivedObject } from "../../shared/wire/transfer/stream.js";
import { fineTuned, weights } from "../helpers/related-tensors.js";
import {
  median,
  mobileNetShapes,
  recoverFloor,
  saveFloor,
  spent,
  type Cost,
  type Named,
} from "./save-floors.js";

export interface CodedStep {
  readonly depth: number;
  /** Bytes of the changed tensors, and as they are coded. */
  readonly changedBytes: number;
  readonly codedBytes: number;
  /** The codec alone on the changed tensors, in memory. */
  readonly encode: Cost;
  readonly decode: Cost;
  /** Coding them as a device does, and what the server then does until the version is recorded. */
  readonly code: Cost;
  readonly takeIn: Cost;
  /** SHA-256 of the changed bytes and an fsynced write of the coded ones. */
  readonly saveFloor: Cost;
  readonly recover: Cost;
  readonly recoverFloor: Cost;
  /** How many times over a recovery decodes as many bytes as the step changed. */
  readonly decodings: number;
}

interface Pair {
  readonly repository: FleetRepository;
  close(): Promise<void>;
}
async function openPair(path: string): Promise<Pair> {
  const home = await openNodeHome(path),
    repository = await openRepository(home, "local");
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

/** Every tensor moved a little, or only the last two. */
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

/** What a device sends, as it comes out of the stream. */
async function* received(
  changes: readonly Change[],
  encoded: readonly EncodedTensor[],
): AsyncIterable<ReceivedObject> {
  for (const [i, { tensor, id, baseId }] of changes.entries()) {
    const { code, bytes, against } = encoded[i]!,
      { dtype, shape } = tensor,
      ref = { kind: "tensor" as const, id, byteLength: tensor.bytes.length };
    yield await Promise.resolve(
      code === 0
        ? { kind: "tensor", ref, source: sourceOfTensor({ dtype, shape, bytes }) }
        : {
            kind: "coded",
            ref,
            header: { dtype, shape },
            encoding: { code, byteLength: bytes.length, ...(against.base ? { against: baseId } : {}) },
            bytes,
          },
    );
  }
}

/**
 * As ingest does when the last block is there: one pack with the tensors and the small objects, then the
 * fact.
 */
async function takeIn(
  server: FleetRepository,
  device: FleetRepository,
  versionId: Hash,
  changes: readonly Change[],
  encoded: readonly EncodedTensor[],
): Promise<void> {
  const small = await Promise.all(
    smallObjectsOf(device.get(versionId)!.record).map(async ({ kind, id }) => ({
      kind,
      bytes: await device.objects.read(kind, id),
    })),
  );
  const recordBytes = await device.objects.read("record", versionId),
    pack = await server.objects.begin(),
    coder = openTensorCoder(0);
  await putReceivedTensors(pack, server.objects, coder, received(changes, encoded));
  for (const { kind, bytes } of small) await pack.put(kind, bytes);
  await pack.put("record", recordBytes);
  await pack.commit();
  await server.record(recordBytes);
  await coder.close();
}

/** Bytes that a recovery of these tensors decodes, chains with them. */
function decodedBytes(server: FleetRepository, tensors: Iterable<Hash>): number {
  let bytes = 0;
  for (const tensor of tensors)
    for (let at: Hash | undefined = tensor; at !== undefined;) {
      const lies = server.objects.encodingOf(at)!;
      if (lies.code !== 0) bytes += server.objects.stat(at)!.byteLength;
      at = lies.base as Hash | undefined;
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

/** The next version: made and saved on the device, then coded and taken in. */
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
  const taken = await spent(() => takeIn(server, device, versionId, changes, encoded));
  const changedBytes = changes.reduce((sum, { tensor }) => sum + tensor.bytes.length, 0),
    codedBytes = encoded.reduce((sum, { bytes }) => sum + bytes.length, 0);
  return {
    depth,
    versionId,
    tensors,
    changedBytes,
    codedBytes,
    encode,
    decode,
    code,
    takeIn: taken,
    saveFloor: floor,
  };
}

const openings = 3;

/**
 * From a repository that has decoded nothing yet, the system's cache having all of it: medians of some
 * openings.
 */
async function recoverStep(
  path: string,
  cached: string,
  { tensors: _, versionId, ...saved }: Saved,
): Promise<CodedStep> {
  const floors: Cost[] = [],
    recoveries: Cost[] = [];
  let decodings = 0;
  for (let opening = 0; opening <= openings; opening++) {
    const server = await openPair(path);
    const floor = await spent(() => recoverFloor(cached)),
      recover = await spent(() => server.repository.recover(versionId));
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
  const middle = (costs: readonly Cost[]): Cost => ({
    clockMs: median(costs.map(({ clockMs }) => clockMs)),
    processorMs: median(costs.map(({ processorMs }) => processorMs)),
  });
  return { ...saved, recover: middle(recoveries), recoverFloor: middle(floors), decodings };
}

export async function measureCodedChain(
  within: string,
  partial: boolean,
  depth: number,
): Promise<readonly CodedStep[]> {
  const codec = await loadDeltaCodec(),
    folder = await mkdtemp(join(within, "chain-")),
    cached = join(folder, "cached");
  const tensors = mobileNetShapes().map((shape, i): Named => ({
    name: `t${String(i).padStart(3, "0")}`,
    ...weights(shape, i + 1),
  }));
  const device = await openPair(join(folder, "device")),
    server = await openPair(join(folder, "server"));
  const { versionId } = (await device.repository.save(opaqueModelSource(tensors), { name: "m" })).summary;
  await takeIn(
    server.repository,
    device.repository,
    versionId,
    tensors.map((tensor) => {
      const id = tensorId(tensor, tensor.bytes);
      return { tensor, base: tensor, id, baseId: id };
    }),
    tensors.map(({ bytes }) => ({ code: 0, bytes, against: { base: false, previous: false } })),
  );
  const file = await open(cached, "w");
  for (const { bytes } of tensors) await file.write(bytes);
  await file.close();
  const chain = { folder, codec, partial, device: device.repository, server: server.repository },
    saved: Saved[] = [];
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
   * Coding by the device and taking in by the server, the server's proof of every tensor (a decoding) counted
   * in the floor; and not.
   */
  save: ({ code, takeIn: taken, saveFloor: floor, encode, decode }, by) =>
    (code[by] + taken[by]) / (floor[by] + encode[by] + decode[by]),
  saveProofExtra: ({ code, takeIn: taken, saveFloor: floor, encode }, by) =>
    (code[by] + taken[by]) / (floor[by] + encode[by]),
  takeIn: ({ takeIn: taken, saveFloor: floor, decode }, by) => taken[by] / (floor[by] + decode[by]),
  recover: ({ recover, recoverFloor: floor, decode, decodings }, by) =>
    recover[by] / (floor[by] + decodings * decode[by]),
};

/**
 * Medians over steps of ratios, each within one step, by the clock and by processor time (which other work on
 * the machine disturbs less).
 */
export function codedFigures(steps: readonly CodedStep[]): Readonly<Record<string, number>> {
  const of = (value: (step: CodedStep) => number, some = steps): number => median(some.map(value));
  const deepest = Math.min(keyframeDepth, Math.max(...steps.map(({ depth }) => depth)));
  const figures: Record<string, number> = {
    megabytes: of(({ changedBytes }) => changedBytes) / 1e6,
    codedShare: of(({ codedBytes, changedBytes }) => codedBytes / changedBytes),
    encodeMs: of(({ encode }) => encode.processorMs),
    decodeMs: of(({ decode }) => decode.processorMs),
    takeInMs: of(({ takeIn: taken }) => taken.clockMs),
  };
  for (const [name, ratio] of Object.entries(ratios))
    for (const [by, suffix] of [
      ["clockMs", ""],
      ["processorMs", "Processor"],
    ] as const)
      figures[`${name}Ratio${suffix}`] = of((step) => ratio(step, by));
  for (const depth of new Set([1, deepest])) {
    const some = steps.filter((step) => step.depth === depth);
    figures[`recoverMsDepth${depth}`] = of(({ recover }) => recover.clockMs, some);
    figures[`recoverRatioProcessorDepth${depth}`] = of(
      (step) => ratios["recover"]!(step, "processorMs"),
      some,
    );
  }
  return figures;
}
