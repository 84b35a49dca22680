// When dead buffers are freed: as soon as buffers have grown, not while they are few, and not again and again where
// they are in use.
import assert from "node:assert/strict";
import { it } from "node:test";
import { bufferCollector, processBuffers } from "../../../../shared/adapters/free-buffers.js";
import { nextEventLoopTurn } from "../../../helpers/agent-test-environment.js";

const MiB = 1024 * 1024;

/** A process whose buffers take `used` and `dead` MiB. */
function fakeMemory() {
  const memory = { used: 0, dead: 0, collections: 0 };
  const look = bufferCollector({
    bytes: () => (memory.used + memory.dead) * MiB,
    collect: () => {
      memory.collections++;
      memory.dead = 0;
    },
  });
  return { memory, look };
}

it("collects when buffers have grown, and not while they are few", () => {
  const { memory, look } = fakeMemory();
  memory.dead = 30;
  look();
  assert.equal(memory.collections, 0);
  memory.dead = 40;
  look();
  assert.deepEqual(memory, { used: 0, dead: 0, collections: 1 });
  look();
  memory.dead = 45;
  look();
  assert.equal(memory.collections, 2);
});

it("does not collect again and again where the buffers are in use", () => {
  const { memory, look } = fakeMemory();
  memory.used = 200;
  for (let time = 0; time < 10; time++) look();
  assert.equal(memory.collections, 1);
  memory.dead = 11;
  look();
  assert.equal(memory.collections, 1);
  memory.dead = 12;
  look();
  assert.equal(memory.collections, 2);
});

it("measures from the least that buffers took since", () => {
  const { memory, look } = fakeMemory();
  memory.used = 100;
  look();
  memory.used = 30;
  look();
  memory.dead = 15;
  look();
  assert.equal(memory.collections, 2);
});

it("frees dead buffers of this process", async () => {
  const memory = processBuffers();
  assert.ok(memory);
  memory.collect();
  const before = memory.bytes();
  for (let block = 0; block < 64; block++) Buffer.allocUnsafeSlow(MiB / 4).fill(block);
  const grown = memory.bytes() - before;
  memory.collect();
  // They are freed in the background.
  while (memory.bytes() - before > grown / 4) await nextEventLoopTurn();
});
