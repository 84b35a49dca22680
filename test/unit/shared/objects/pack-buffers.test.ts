// The buffers that a pack is gathered in: as few as what is written needs, and the bytes are the same whatever the
// sizes of its pieces.
import assert from "node:assert/strict";
import { it } from "node:test";
import { BufferPool, PackFileWriter } from "../../../../shared/objects/pack-file-writer.js";
import { plainSeal } from "../../../../shared/objects/unsealed-entry.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { seededRandom } from "../../../helpers/manual-clock.js";

const KiB = 1024;

class CountingPool extends BufferPool {
  readonly taken: number[] = [];
  override take(bytes: number): Uint8Array {
    this.taken.push(bytes / KiB);
    return super.take(bytes);
  }
}

/** Writes pieces of these lengths as an object each, and drops those at `dropped`. @returns the buffers' KiB */
async function writePieces(lengths: readonly number[], dropped: readonly number[] = []): Promise<number[]> {
  const files = memoryFiles();
  await files.makeFolder("/packs");
  const random = seededRandom("pack buffers");
  const pool = new CountingPool();
  const writer = new PackFileWriter(files, "/packs", random, pool);
  const expected: Buffer[] = [];
  for (const [index, length] of lengths.entries()) {
    const bytes = Buffer.alloc(length, random.bytes(32));
    await writer.push(bytes);
    if (dropped.includes(index)) {
      await writer.dropEntry();
      continue;
    }
    expected.push(bytes);
    writer.endEntry({ id: objectId("data", bytes), kind: "data", byteLength: length });
  }
  const pack = await writer.finish(plainSeal, () => assert.fail("the disk is well"));
  await writer.publish(pack);
  const stored = await files.read(`/packs/${pack.name}.pack`);
  assert.equal(stored.length, pack.bytes);
  assert.equal(pack.entries.length, expected.length);
  for (const [index, { offset, storedBytes }] of pack.entries.entries())
    assert.equal(expected[index]?.compare(stored.subarray(offset, offset + storedBytes)), 0);
  return pool.taken;
}

it("takes one small buffer for a small save", async () => {
  assert.deepEqual(await writePieces([1000, 2000]), [64]);
});

it("takes no buffer that it puts nothing into", async () => {
  assert.deepEqual(await writePieces(new Array<number>(17).fill(20 * KiB)), [64, 128, 256]);
});

it("alternates between two large buffers in a large save", async () => {
  const taken = await writePieces(new Array<number>(14).fill(KiB * KiB));
  assert.deepEqual(taken, [64, 128, 256, 512, 1024, 2048, 4096, 4096]);
});

it("writes the same bytes where objects are dropped, of any length", async () => {
  const lengths = [63 * KiB, 900, 200 * KiB, 3000 * KiB, 10, 64 * KiB, 3 * KiB * KiB, 1, 500 * KiB];
  for (const dropped of [[], [0], [2, 3], [6], [8], [1, 4, 6, 7]]) await writePieces(lengths, dropped);
});
