/**
 * Finds relatives of tensors to which lineage, siblings and names lead nowhere: renamed layers, casts, quantised or
 * transposed copies in other models and lines. Reads a bounded number of tensors, and none where lineage is enough.
 */
import { isStemmaError } from "../../../shared/errors.js";
import { hasSameHeader } from "../../../shared/tensor/same-header.js";
import type { Hash, TensorSource } from "../../../shared/tensor/tensor.js";
import type { ArchiveVersion, CandidateReference } from "./candidate-references.js";
import { isAboutOneTensor } from "./edge-costs.js";
import type { ArchiveTensor } from "./read-versions.js";
import {
  isSigned,
  SignatureBuilder,
  SignatureIndex,
  type Signature,
} from "../../../shared/tensor/tensor-signature.js";

/** Tensors that are signed at most, newest versions first; their bytes together; and the bytes of one. */
export const contentLimits = { tensors: 4096, bytes: 2 ** 30, tensorBytes: 2 ** 26 };
/** Smaller tensors have nothing to save. */
const minTensorBytes = 2048;
/** Relatives of one tensor, and of each the tensors near it in its lineage. */
const maxRelatives = 2;
const maxNear = 3;

type Candidates = ReadonlyMap<Hash, readonly CandidateReference[]>;

export interface ContentSearch {
  readonly versions: readonly ArchiveVersion[];
  readonly tensors: ReadonlyMap<Hash, ArchiveTensor>;
  readonly candidates: Candidates;
  readonly open: (id: Hash) => TensorSource;
  readonly limits?: typeof contentLimits | undefined;
  /** True if other work should run before the next tensor. */
  readonly shouldYield: () => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Candidates by content, for tensors that have none of their type and shape. */
export async function contentCandidates(search: ContentSearch): Promise<Candidates> {
  const { tensors, candidates } = search;
  const isLone = ({ id, header }: ArchiveTensor): boolean =>
    (candidates.get(id) ?? []).every(({ from }) => {
      const other = tensors.get(from);
      return other === undefined || !hasSameHeader(other.header, header);
    });
  const signed = toSign(search);
  if (!signed.some(isLone)) return new Map();
  const signatures = await signAll(search, signed);
  const index = new SignatureIndex<Hash>();
  for (const [id, signature] of signatures) index.add(id, signature);
  const found = new Map<Hash, readonly CandidateReference[]>();
  for (const tensor of signed) {
    const signature = signatures.get(tensor.id);
    if (signature === undefined || !isLone(tensor)) continue;
    const relatives = index.find(tensor.id, signature, maxRelatives);
    const near = relatives.flatMap((id) => [id, ...nearIn(candidates, id)]);
    const own = [...new Set(near)].filter((id) => id !== tensor.id);
    found.set(
      tensor.id,
      own.map((from) => ({ to: tensor.id, from, relation: "content" as const })),
    );
  }
  return found;
}

/** Later and earlier tensors at the place of one. */
function nearIn(candidates: Candidates, id: Hash): readonly Hash[] {
  return (candidates.get(id) ?? []).slice(0, maxNear).map(({ from }) => from);
}

/** Returns the newest tensor of each place in each series, and all that follow from none by lineage; newest first. */
function toSign({
  versions,
  tensors,
  candidates,
  limits = contentLimits,
}: ContentSearch): readonly ArchiveTensor[] {
  const chosen = new Map<Hash, ArchiveTensor>();
  const places = new Set<string>();
  let bytes = 0;
  for (const { series, leaves } of [...versions].sort((a, b) => b.position - a.position))
    for (const { path, tensor: id } of leaves) {
      const tensor = tensors.get(id);
      const place = `${series} ${path}`;
      const isNewest = !places.has(place);
      places.add(place);
      if (tensor === undefined || chosen.has(id) || !isSigned(tensor.header)) continue;
      const hasAncestor = (candidates.get(id) ?? []).some(({ relation }) => relation === "ancestor");
      const { byteLength } = tensor;
      if ((!isNewest && hasAncestor) || byteLength < minTensorBytes || byteLength > limits.tensorBytes)
        continue;
      if (chosen.size === limits.tensors || bytes + byteLength > limits.bytes) return [...chosen.values()];
      chosen.set(id, tensor);
      bytes += byteLength;
    }
  return [...chosen.values()];
}

async function signAll(
  { open, shouldYield, signal }: ContentSearch,
  tensors: readonly ArchiveTensor[],
): Promise<ReadonlyMap<Hash, Signature>> {
  const signatures = new Map<Hash, Signature>();
  for (const { id, header } of tensors) {
    signal?.throwIfAborted();
    if (shouldYield()) await new Promise(setImmediate);
    try {
      const builder = new SignatureBuilder(header);
      for await (const chunk of open(id).chunks()) builder.update(chunk);
      signatures.set(id, builder.finish());
    } catch (error) {
      // A damaged tensor has no relatives; the plan says what becomes of it.
      if (!isStemmaError(error) || !isAboutOneTensor(error)) throw error;
    }
  }
  return signatures;
}
