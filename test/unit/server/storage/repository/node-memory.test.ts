/** The memory that a process has in use, and the most that V8 lets stay on its heap. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const moduleUrl = new URL("../../../../../server/storage/repository/node-memory.js", import.meta.url).href;
const program = `
  import { readMemory } from ${JSON.stringify(moduleUrl)};
  const before = readMemory();
  globalThis.kept = Array.from({ length: 200_000 }, (_, n) => ({ n, text: "x".repeat(20) + n }));
  gc();
  await new Promise((resolve) => setTimeout(resolve, 50));
  globalThis.outside = new Uint8Array(30e6);
  console.log(JSON.stringify({ before, after: readMemory() }));
`;

test("what stays on the heap is counted after a collection, and so is what is outside of it", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--expose-gc",
    "--max-old-space-size=100",
    "--input-type=module",
    "--eval",
    program,
  ]);
  const { before, after } = JSON.parse(stdout) as Record<string, Record<string, number>>;
  assert.equal(before?.["heapBytes"], 0, "nothing is known before the first collection");
  // V8 ends a process whose old objects have more than it was told.
  assert.equal(after?.["heapLimitBytes"], 100 * 2 ** 20);
  const heapBytes = after["heapBytes"] ?? 0;
  assert.ok(heapBytes > 15e6 && heapBytes < 60e6, `${heapBytes} bytes`);
  const grownBytes = (after["outsideBytes"] ?? 0) - (before?.["outsideBytes"] ?? 0);
  assert.ok(grownBytes > 29e6 && grownBytes < 32e6, `${grownBytes} bytes`);
  assert.ok((after["machineBytes"] ?? 0) > 5e8);
});
