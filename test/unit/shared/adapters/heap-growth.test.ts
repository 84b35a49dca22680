// The heap of a process that limits its growth, beside that of one that does not: both keep 40 MB and make garbage.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

const heapGrowth = new URL("../../../../shared/adapters/heap-growth.js", import.meta.url).href;
const work = `
  const kept = [];
  let most = 0;
  for (let round = 0; round < 60; round++) {
    for (let n = 0; n < 20000; n++) {
      const item = { n, next: { n }, text: [n, n, n] };
      if (round < 15) kept.push(item);
      else kept[(n * 37 + round * 4099) % kept.length] = item;
    }
    most = Math.max(most, process.memoryUsage().heapTotal);
  }
  console.log(most);
`;
const mostHeap = (before: string): number =>
  Number(execFileSync(process.execPath, ["--input-type=module", "-e", before + work], { encoding: "utf8" }));

test("a process that limits the growth of its heap takes less memory for the same work", () => {
  const limited = mostHeap(`(await import(${JSON.stringify(heapGrowth)})).limitHeapGrowth();`);
  const free = mostHeap("");
  assert.ok(limited < 0.9 * free, `${limited} of ${free} bytes`);
});
