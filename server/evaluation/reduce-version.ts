/**
 * A smaller, lossy form of a stored model: its matrices through a float scheme, saved as a version of its own
 * with the exact one as base. Its tensors are the reduced numbers, recovered bit for bit like any; they lie
 * in the store in the scheme's compact form, and what the scheme leaves alone is shared with the exact model.
 */
import { loadDeltaCodec } from "../../shared/delta/load.js";
import { StemmaError } from "../../shared/errors.js";
import type { Leaf, ModelSource } from "../../shared/model/model.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";
import { decodeScheme, isReducible } from "../../shared/schemes/decode-scheme.js";
import {
  differenceOf,
  joinDifferences,
  noDifference,
  type Difference,
} from "../../shared/schemes/difference.js";
import { reduceTensor, type ReducedTensor } from "../../shared/schemes/reduce.js";
import { parseScheme, schemeText } from "../../shared/schemes/scheme.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, tensorOfSource, type Hash, type TensorSource } from "../../shared/tensor/tensor.js";
import { checkExactness } from "../repository/state/exactness.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { OperationsContext } from "../context/operations-context.js";
import type { ReduceReport } from "../api/evaluation-schemas.js";
import type { OperationInput } from "../api/server-operations.js";

type Codec = Awaited<ReturnType<typeof loadDeltaCodec>>;

/** One leaf as it will be stored. `stored`: bytes that a reader of the reduced model needs for it. */
interface ReducedLeaf {
  readonly leaf: Leaf;
  readonly source: TensorSource;
  readonly coded: { readonly code: number; readonly bytes: Uint8Array } | undefined;
  readonly stored: number;
  readonly rawBytes: number;
  readonly difference: Difference;
}

/**
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED; USAGE for a scheme or seed that is none; MODEL_REDUCED for a model
 * that is reduced
 *   already, or a name that exact versions have; NAME_INVALID
 */
export async function reduceOnServer(
  context: OperationsContext,
  request: OperationInput<"reduce">,
): Promise<ReduceReport> {
  const scheme = parseScheme(request.scheme),
    seed = checkSeed(request.seed ?? "0");
  const repository = await context.fleets.get(request.fleet),
    version = repository.resolve(request.model);
  if (version.record.scheme !== undefined)
    throw new StemmaError(
      "MODEL_REDUCED",
      `${version.name}:${version.version} went through ${version.record.scheme} already, and two losses are not told apart any more. Reduce the exact model: see \`stemma model log ${version.name}:${version.version}\`.`,
      { versionId: version.versionId },
    );
  checkExactness(
    request.name,
    request.scheme,
    repository.versions({ name: request.name, includeRetired: true }).at(-1),
  );
  const model = await repository.recover(version.versionId),
    codec = await loadDeltaCodec();
  const known = new Map<Hash, ReducedLeaf>(),
    leaves: ReducedLeaf[] = [];
  for (const [i, leaf] of model.leaves.entries()) {
    const before =
      known.get(leaf.tensor) ??
      (await reduceLeaf(
        repository,
        leaf,
        model.sources[i] as TensorSource,
        (bytes) => reduceTensor(scheme, leaf, bytes, { seed, codec }),
        codec,
      ));
    known.set(leaf.tensor, before);
    leaves.push({ ...before, leaf: { ...before.leaf, path: leaf.path } });
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
  if (!/^(0|[1-9][0-9]{0,19})$/.test(seed) || BigInt(seed) >= 2n ** 64n)
    throw new StemmaError(
      "USAGE",
      `--seed ${seed.slice(0, 40)} is no unsigned 64-bit number. Give it in decimal digits.`,
    );
  return seed;
}

async function reduceLeaf(
  repository: Pick<FleetRepository, "objects">,
  leaf: Leaf,
  source: TensorSource,
  reduce: (bytes: Uint8Array) => ReducedTensor,
  codec: Codec,
): Promise<ReducedLeaf> {
  const exact = (): ReducedLeaf => ({
    leaf,
    source,
    coded: undefined,
    rawBytes: source.byteLength,
    stored: repository.objects.encodingOf(leaf.tensor)?.storedBytes ?? source.byteLength,
    difference: { ...noDifference, numbers: leaf.dtype === "F32" ? source.byteLength / 4 : 0 },
  });
  if (!isReducible(leaf)) return exact();
  const { bytes } = await tensorOfSource(source),
    { reduced, code, bytes: compact } = reduce(bytes),
    { dtype, shape } = leaf;
  const tensor = code === 0 ? leaf.tensor : tensorId(leaf, reduced);
  // Numbers that the scheme keeps are the exact tensor, which is stored.
  if (tensor === leaf.tensor) return exact();
  return {
    leaf: { ...leaf, tensor },
    coded: { code, bytes: compact },
    rawBytes: bytes.length,
    stored: compact.length,
    difference: differenceOf(bytes, reduced),
    // Held compact: decoded again if anybody reads it.
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
    ...(model.architecture === undefined ? {} : { architecture: model.architecture }),
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
  const once = [...new Map(leaves.map((each) => [each.leaf.tensor, each])).values()],
    total = (of: (each: ReducedLeaf) => number): number => once.reduce((sum, each) => sum + of(each), 0);
  const rawBytes = total((each) => each.rawBytes),
    storedBytes = total((each) => each.stored);
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
