/** Stores and tensors for the tests of object stores: their contract, their faults and their properties. */
import { silentLog } from "../../shared/adapters/node-ports.js";
import { StemmaError, type ErrorCode } from "../../shared/errors.js";
import type { ObjectKind } from "../../shared/model/model.js";
import type { ByteSource, ObjectPruner, ObjectReader } from "../../shared/objects/object-store.js";
import { sourceOfTensor, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import { seededNumbers, type ManualClock } from "./manual-clock.js";

export interface StoreUnderTest {
  readonly store: ObjectPruner;
  readonly clock: ManualClock;
  /** Opens a new store on what is durable; absent for a store that keeps nothing. */
  readonly reopen?: () => Promise<ObjectPruner>;
}
/** Opens a new, empty store for one test. */
export type StartStore = (options?: { readonly graceMs?: number }) => Promise<StoreUnderTest>;

/** A tensor of pseudo-random bytes. */
/** Options of a loading of packs that logs nothing. */
export const loading = { log: silentLog(), onDamage: (cause: Error) => cause };

export function testTensor(seed: number, elements = 100): Tensor {
  const random = seededNumbers(seed);
  const bytes = new Uint8Array(elements);
  for (let i = 0; i < elements; i++) bytes[i] = random() * 256;
  return { dtype: "U8", shape: [elements], bytes };
}

/** A check for `assert.rejects` and `assert.throws`. */
export const hasCode =
  (expected: ErrorCode) =>
  (error: unknown): boolean =>
    error instanceof StemmaError && error.code === expected;

/** Saves the tensors raw, in one pack. */
export async function saveTensors(store: ObjectPruner, ...tensors: readonly Tensor[]): Promise<Hash[]> {
  const pack = await store.begin();
  const ids: Hash[] = [];
  for (const tensor of tensors) ids.push(await pack.putTensor(sourceOfTensor(tensor)));
  await pack.commit();
  return ids;
}

/** A source over bytes, in pieces of an odd length. */
export function streamOf(bytes: Uint8Array, pieceBytes = 65_537): ByteSource {
  return {
    async *chunks() {
      for (let at = 0; at < bytes.length; at += pieceBytes)
        yield await Promise.resolve(bytes.slice(at, at + pieceBytes));
    },
  };
}

/** All bytes of a stored stream. */
export async function streamedBytes(store: ObjectReader, kind: ObjectKind, id: Hash): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of store.openStream(kind, id).chunks()) pieces.push(piece.slice());
  return new Uint8Array(Buffer.concat(pieces));
}
