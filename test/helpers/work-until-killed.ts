/**
 * A worker that says what it has acknowledged, a line of JSON each, and is killed -9 in the middle of its
 * work. For tests that open afterwards what it left.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Runs the worker until it has said `after` things, then for `delayMs` more, and kills it. */
export async function workUntilKilled<Said>(
  worker: URL,
  words: readonly string[],
  after: number,
  delayMs: number,
): Promise<readonly Said[]> {
  const child = spawn(process.execPath, [fileURLToPath(worker), ...words], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said: Said[] = [];
  let complaint = "";
  child.stderr.on("data", (chunk: Buffer) => {
    complaint += chunk.toString();
  });
  const ended = new Promise<string | null>((resolve) => {
    child.on("exit", (_code, signal) => {
      resolve(signal);
    });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(JSON.parse(line) as Said);
    if (said.length === after) setTimeout(() => child.kill("SIGKILL"), delayMs);
  }
  assert.equal(await ended, "SIGKILL", `the worker ended by itself: ${complaint}`);
  return said;
}
