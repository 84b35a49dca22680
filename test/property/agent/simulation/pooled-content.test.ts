// Files whose pieces are shared read and write like files in one array, and never change each other.
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { PiecePool, pooledContents } from "../../../../agent/simulation/pooled-content.js";
import { filesInMemory } from "../../../../shared/files/memory-files.js";
import type { Files } from "../../../../shared/ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import "../../../helpers/property-seed.js";

const step = fc.oneof(
  fc.record({
    do: fc.constant("write" as const),
    file: fc.constantFrom("/a", "/b"),
    // Few seeds, so that pieces are equal; lengths on both sides of those that are shared.
    seed: fc.integer({ min: 1, max: 3 }),
    length: fc.constantFrom(1, 100, 4096, 5000, 9000),
    position: fc.integer({ min: 0, max: 12_000 }),
  }),
  fc.record({
    do: fc.constant("truncate" as const),
    file: fc.constantFrom("/a", "/b"),
    size: fc.integer({ min: 0, max: 15_000 }),
  }),
);

it("keeps what was written, as files in one array do", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const plain = memoryFiles();
      const pooled = filesInMemory(pooledContents(new PiecePool()));
      for (const files of [plain, pooled])
        for (const one of steps) {
          const file = await files.open(one.file, "append");
          if (one.do === "truncate") await file.truncate(one.size);
          else {
            // A buffer of the network is used again; what was written from it must not change then.
            const bytes = Buffer.from(noiseBytes(one.length, one.seed));
            await file.write(bytes, one.position);
            bytes.fill(0xee);
          }
          await file.close();
        }
      for (const path of ["/a", "/b"]) await assertSame(plain, pooled, path);
    }),
    { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 2000 : 200 },
  );
});

async function assertSame(plain: Files, pooled: Files, path: string): Promise<void> {
  const stat = await plain.stat(path);
  assert.equal((await pooled.stat(path))?.size, stat?.size);
  if (stat === undefined) return;
  const [a, b] = [await plain.read(path), await pooled.read(path)];
  assert.ok(Buffer.from(a).equals(b), path);
  const target = new Uint8Array(3000).fill(0xcc);
  const read = await (await pooled.open(path, "read")).read(target, 2000);
  assert.equal(read, Math.max(0, Math.min(3000, a.length - 2000)));
  assert.ok(Buffer.from(target.subarray(0, read)).equals(a.subarray(2000, 2000 + read)));
}

it("keeps equal pieces of two files once", async () => {
  const pool = new PiecePool();
  for (let device = 0; device < 3; device++) {
    const file = await filesInMemory(pooledContents(pool)).open("/model", "create");
    await file.write(noiseBytes(8192, 1), 0);
    await file.write(noiseBytes(8192, 2), 8192);
  }
  assert.equal(pool.count, 2);
});
