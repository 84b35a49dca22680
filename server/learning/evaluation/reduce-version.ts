/**
 * Makes a smaller, lossy form of a stored model as a version of its own, whose base is the exact one. A float scheme
 * reduces its matrices. Its tensors are the reduced numbers, which are recovered bit for bit like any others. They are
 * stored in the scheme's compact form. Tensors that the scheme does not change are shared with the exact model.
 */
import { defined } from "../../../shared/defined.js";
import { sharedDeltaCodec } from "../../../shared/delta/load.js";
import type { Leaf, ModelSource } from "../../../shared/model/model.js";
import type { RecoveredModel } from "../../../shared/recover/recovery.js";
import { decodeScheme, isReducible } from "../../../shared/schemes/decode-scheme.js";
import {
  differenceOf,
  joinDifferences,
  noDifference,
  type Difference,
} from "../../../shared/schemes/difference.js";
import { isKeptFile } from "../../../shared/model/kept-file.js";
import { withoutArchitecture } from "../../services/context/context-errors.js";
import { reduceTensor, type ReducedTensor } from "../../../shared/schemes/reduce.js";
import { parseScheme, schemeText } from "../../../shared/schemes/scheme.js";
import { tensorId } from "../../../shared/tensor/hash.js";
import {
  sourceOfTensor,
  tensorOfSource,
  type Hash,
  type TensorSource,
} from "../../../shared/tensor/tensor.js";
import { checkExactness } from "../../storage/repository/state/exactness.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { ReduceReport } from "../../interface/api/models/reduce-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { reducedAlready, seedInvalid } from "./evaluation-errors.js";

type Codec = Awaited<ReturnType<typeof sharedDeltaCodec>>;

/** One leaf as it will be stored. */
interface ReducedLeaf {
  readonly leaf: Leaf;
  readonly source: TensorSource;
  readonly coded: { readonly code: number; readonly bytes: Uint8Array } | undefined;
  /** Bytes that a reader of the reduced model needs for this leaf. */
  readonly storedBytes: number;
  readonly rawBytes: number;
  readonly difference: Difference;
}

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED; USAGE for an unknown scheme or an invalid seed, MODEL_REDUCED for a
 * model that is reduced already, or a name that exact versions have, NAME_INVALID
 */
export async function reduceOnServer(
  context: OperationsContext,
  request: OperationInput<"reduce">,
): Promise<ReduceReport> {
  const scheme = parseScheme(request.scheme);
  const seed = checkSeed(request.seed ?? "0");
  const repository = await context.fleets.get(request.fleet);
  const version = repository.resolve(request.model);
  if (version.record.scheme !== undefined) throw reducedAlready(version);
  checkExactness(
    request.name,
    request.scheme,
    repository.versions({ name: request.name, includeRetired: true }).at(-1),
  );
  await requireRoom(context.home);
  const model = await repository.recover(version.versionId);
  if (isKeptFile(model.leaves)) throw withoutArchitecture(version.name, version.version, version.versionId);
  const codec = await sharedDeltaCodec();
  const reducer: Reducer = {
    codec,
    storedBytesOf: (tensor) => repository.objects.encodingOf(tensor)?.storedBytes,
    reduce: (leaf, bytes) => reduceTensor(scheme, leaf, bytes, { seed, codec }),
  };
  const known = new Map<Hash, ReducedLeaf>();
  const leaves: ReducedLeaf[] = [];
  for (const [i, leaf] of model.leaves.entries()) {
    const reduced =
      known.get(leaf.tensor) ?? (await reduceLeaf(leaf, model.sources[i] as TensorSource, reducer));
    known.set(leaf.tensor, reduced);
    leaves.push({ ...reduced, leaf: { ...reduced.leaf, path: leaf.path } });
  }
  const report = reportOf(version, schemeText(scheme), leaves);
  if (request.dryRun === true) return { ...report, summary: null, packBytes: 0 };
  const saved = await repository.save(sourceOf(model, leaves), {
    name: request.name,
    bases: [version.versionId],
    scheme: schemeText(scheme),
    ...(scheme.name === "quantize-random" ? { metadata: { "scheme.seed": seed } } : {}),
  });
  (await context.live?.fleet(request.fleet))?.saved(saved.summary.versionId);
  return { ...report, summary: saved.summary, packBytes: saved.packBytes };
}

function checkSeed(seed: string): string {
  if (!/^(0|[1-9][0-9]{0,19})$/.test(seed) || BigInt(seed) >= 2n ** 64n) throw seedInvalid(seed);
  return seed;
}

interface Reducer {
  readonly codec: Codec;
  /** Bytes of a tensor in the store; undefined where it is not stored. */
  readonly storedBytesOf: (tensor: Hash) => number | undefined;
  readonly reduce: (leaf: Leaf, bytes: Uint8Array) => ReducedTensor;
}

async function reduceLeaf(
  leaf: Leaf,
  source: TensorSource,
  { codec, storedBytesOf, reduce }: Reducer,
): Promise<ReducedLeaf> {
  const exact = (): ReducedLeaf => ({
    leaf,
    source,
    coded: undefined,
    rawBytes: source.byteLength,
    storedBytes: storedBytesOf(leaf.tensor) ?? source.byteLength,
    difference: { ...noDifference, numbers: leaf.dtype === "F32" ? source.byteLength / 4 : 0 },
  });
  if (!isReducible(leaf)) return exact();
  const { bytes } = await tensorOfSource(source);
  const { reduced, code, bytes: compact } = reduce(leaf, bytes);
  const { dtype, shape } = leaf;
  const tensor = code === 0 ? leaf.tensor : tensorId(leaf, reduced);
  // The scheme changed no number, so this is the exact tensor, which is stored already.
  if (tensor === leaf.tensor) return exact();
  return {
    leaf: { ...leaf, tensor },
    coded: { code, bytes: compact },
    rawBytes: bytes.length,
    storedBytes: compact.length,
    difference: differenceOf(bytes, reduced),
    // Kept in compact form, and decoded whenever it is read.
    source: {
      dtype,
      shape,
      byteLength: bytes.length,
      async *chunks() {
        yield* sourceOfTensor({ dtype, shape, bytes: decodeScheme(leaf, code, compact, codec) }).chunks();
      },
    },
  };
}

function sourceOf(model: RecoveredModel, leaves: readonly ReducedLeaf[]): ModelSource {
  const coded = new Map(
    leaves.flatMap(({ leaf, coded: form }) => (form === undefined ? [] : [[leaf.tensor, form] as const])),
  );
  return {
    kind: model.record.kind,
    ...defined({ architecture: model.architecture }),
    leaves: leaves.map(({ leaf }) => leaf),
    sources: leaves.map(({ source }) => source),
    names: model.names,
    coded,
  };
}

function reportOf(
  version: VersionSummary,
  scheme: string,
  leaves: readonly ReducedLeaf[],
): Omit<ReduceReport, "summary" | "packBytes"> {
  // A tensor that several leaves share is stored once.
  const once = [...new Map(leaves.map((each) => [each.leaf.tensor, each])).values()];
  const total = (bytesOf: (each: ReducedLeaf) => number): number =>
    once.reduce((sum, each) => sum + bytesOf(each), 0);
  const rawBytes = total((each) => each.rawBytes);
  const storedBytes = total((each) => each.storedBytes);
  return {
    base: { versionId: version.versionId, name: version.name, version: version.version },
    scheme,
    tensors: leaves.length,
    reducedTensors: leaves.filter(({ coded }) => coded !== undefined).length,
    rawBytes,
    storedBytes,
    ratio: storedBytes === 0 ? 1 : rawBytes / storedBytes,
    difference: joinDifferences(once.map(({ difference }) => difference)),
  };
}
