/**
 * Hashes the tensors of a model and writes them in the same pass: while one is written, the next is hashed. Threads
 * would not pay: to give them the bytes takes as long as to hash them.
 */
import { itemsPerStep, nextTurn } from "../concurrency/in-steps.js";
import type { Leaf, ModelSource, UnhashedModel } from "../model/model.js";
import type { ObjectReader, PackWriter } from "../objects/object-store.js";
import { tensorIdOfSource } from "../tensor/hash.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";

/** Tensors of at least this size come first, so that most bytes are being written while the rest is hashed. */
const largeBytes = 1024 * 1024;
/** The hashed bytes after which the event loop gets its turn, to start writes and whatever else waits. */
const turnBytes = 256 * 1024;
/** The largest number of tensors that wait to be written. */
const maxWaiting = 512;

export interface HashedModel {
  readonly model: ModelSource;
  /**
   * Resolves with the bytes of the tensors that the store did not have, once they are written. Rejections are
   * handled; whoever needs them awaits it.
   */
  readonly written: Promise<number>;
}

/** Resolves when all tensors are hashed. @throws TENSOR_SIZE_MISMATCH, and what a write throws */
export async function hashAndPut(
  store: Pick<ObjectReader, "has">,
  pack: Pick<PackWriter, "putTensor">,
  { unhashedLeaves, ...model }: UnhashedModel,
): Promise<HashedModel> {
  const sources: TensorSource[] = [...model.sources];
  const leaves: Leaf[] = [];
  const puts = new Map<Hash, Promise<number>>();
  let hasFailed = false;
  let bytesSinceTurn = 0;
  let tensorsSinceTurn = 0;
  for (const index of largeFirst(model.sources)) {
    const source = model.sources[index] as TensorSource;
    const tensor = await tensorIdOfSource(source);
    const { path, dtype, shape } = unhashedLeaves[index] as UnhashedModel["unhashedLeaves"][number];
    leaves[index] = { path, dtype, shape, tensor };
    const hashed = { ...source, hashedId: tensor };
    sources[index] = hashed;
    if (!puts.has(tensor)) {
      const newBytes = store.has(tensor) ? 0 : source.byteLength;
      const put = pack.putTensor(hashed, tensor).then(() => newBytes);
      put.catch(() => {
        hasFailed = true;
      });
      puts.set(tensor, put);
      // They are written in order: all earlier ones are written, too.
      if (puts.size % maxWaiting === 0) await put.catch(() => undefined);
    }
    bytesSinceTurn += source.byteLength;
    if (bytesSinceTurn >= turnBytes || ++tensorsSinceTurn >= itemsPerStep) {
      bytesSinceTurn = tensorsSinceTurn = 0;
      await nextTurn();
    }
    if (hasFailed) break;
  }
  const written = Promise.all(puts.values()).then((bytes) => bytes.reduce((sum, count) => sum + count, 0));
  written.catch(() => undefined);
  if (leaves.length < model.sources.length || hasFailed) await written;
  return { model: { ...model, leaves, sources }, written };
}

/** Positions of the sources; small ones keep their order, so that neighbours can be read together. */
function largeFirst(sources: readonly TensorSource[]): readonly number[] {
  const large: number[] = [];
  const small: number[] = [];
  sources.forEach(({ byteLength }, index) => (byteLength >= largeBytes ? large : small).push(index));
  return [...large, ...small];
}
