/** Compares two files that are kept as they are, byte by byte. */
import type { LeafTable } from "../../../../shared/model/model.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import type { ModelDiff } from "../answers/version-answers.js";

/** Longer files are not read to count what differs. */
const maxComparedBytes = 256 * 1024 * 1024;

/** @param a the leaves of one file, and `b` those of the other. @throws what reading a tensor throws */
export async function comparedFiles(
  objects: Pick<ObjectReader, "openTensor">,
  a: LeafTable,
  b: LeafTable,
): Promise<ModelDiff["files"]> {
  const [one, other] = [a[0], b[0]];
  if (one === undefined || other === undefined) return undefined;
  const lengths = { a: one.shape[0] ?? 0, b: other.shape[0] ?? 0 };
  if (one.tensor === other.tensor) return { ...lengths, differing: 0 };
  if (Math.max(lengths.a, lengths.b) > maxComparedBytes) return lengths;
  const open = (leaf: typeof one): AsyncIterable<Uint8Array> => objects.openTensor(leaf.tensor).chunks();
  return { ...lengths, differing: await differingBytes(open(one), open(other)) };
}

/** Counts the positions at which two streams differ; what only one of them has counts as differing. */
async function differingBytes(a: AsyncIterable<Uint8Array>, b: AsyncIterable<Uint8Array>): Promise<number> {
  const others = b[Symbol.asyncIterator]();
  let rest: Uint8Array = new Uint8Array(0);
  let differing = 0;
  for await (const chunk of a)
    for (let at = 0; at < chunk.length;) {
      if (rest.length === 0) {
        const next = await others.next();
        if (next.done === true) {
          differing += chunk.length - at;
          break;
        }
        rest = next.value;
      }
      const length = Math.min(rest.length, chunk.length - at);
      for (let i = 0; i < length; i++) if (chunk[at + i] !== rest[i]) differing++;
      at += length;
      rest = rest.subarray(length);
    }
  differing += rest.length;
  for (let next = await others.next(); next.done !== true; next = await others.next())
    differing += next.value.length;
  return differing;
}
