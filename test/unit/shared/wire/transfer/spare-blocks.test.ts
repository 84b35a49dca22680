// Blocks that are used again: all of a burst, each by one at a time, whatever lengths came before.
import assert from "node:assert/strict";
import { it } from "node:test";
import { SpareBlocks } from "../../../../../shared/wire/transfer/spare-blocks.js";

const takeMany = (spare: SpareBlocks, count: number, byteLength: number): readonly Uint8Array[] =>
  Array.from({ length: count }, () => spare.take(byteLength));
const buffersOf = (blocks: readonly Uint8Array[]): ReadonlySet<unknown> =>
  new Set(blocks.map(({ buffer }) => buffer));

it("gives all blocks of a burst again, each once", () => {
  const spare = new SpareBlocks();
  const burst = takeMany(spare, 96, 1024);
  assert.equal(buffersOf(burst).size, 96);
  for (const block of burst) spare.put(block);
  const again = takeMany(spare, 96, 1024);
  assert.deepEqual(buffersOf(again), buffersOf(burst));
});

it("gives blocks of the length that is asked for, and forgets lengths that nobody asks for", () => {
  const spare = new SpareBlocks();
  for (let length = 1; length <= 500; length++) spare.put(spare.take(length));
  const blocks = takeMany(spare, 20, 1024);
  assert.ok(blocks.every(({ length }) => length === 1024));
  for (const block of blocks) spare.put(block);
  assert.deepEqual(buffersOf(takeMany(spare, 20, 1024)), buffersOf(blocks));
});
