/**
 * Mutated envelopes in a process of their own: a peer can neither crash the decoder nor make it use much
 * memory.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const count = process.env["STEMMA_TEST_FULL"] === "1" ? 100_000 : 600;
/** The child ends where it needs more. Without a limit V8 lets garbage grow, on a busy machine by 200 MiB. */
const maxHeapOption = "--max-old-space-size=192";
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 20_251_121);

test(`${count} mutated envelopes and decompression bombs are decoded or refused with a typed error, with bounded memory (seed ${seed})`, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    maxHeapOption,
    fileURLToPath(new URL("./decode-child.js", import.meta.url)),
    String(seed),
    String(count),
  ]);
  const outcome = JSON.parse(stdout) as {
    decoded: number;
    refused: number;
    untyped: string[];
    mostGrownMiB: number;
  };
  assert.deepEqual(outcome.untyped, [], `seed ${seed}`);
  assert.ok(outcome.refused > count / 4, `only ${outcome.refused} were refused`);
  assert.ok(outcome.decoded > 300, `only ${outcome.decoded} were decoded`);
  assert.ok(outcome.mostGrownMiB < 160, `memory grew by ${outcome.mostGrownMiB} MiB, seed ${seed}`);
});
