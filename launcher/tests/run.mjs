// Runs test files, prints what each test did, and counts.
import { setMaxListeners } from "node:events";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { availableParallelism } from "node:os";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { sourceOf } from "./files.mjs";
import { lastSeconds } from "./changed.mjs";

/** Ends a file that hangs. */
const fileTimeoutMs = process.env.STEMMA_TEST_FULL ? 3_600_000 : 600_000;

/** Keeps how long test files took, for the next choice of tests. */
function rememberSeconds(root, seconds) {
  const path = join(root, ".build/test-seconds.json");
  const rounded = Object.fromEntries([...seconds].map(([name, each]) => [name, Number(each.toFixed(2))]));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}.tmp`, JSON.stringify({ ...lastSeconds(root), ...rounded }));
  renameSync(`${path}.${process.pid}.tmp`, path);
}

/**
 * @param files from the checkout's root
 * @returns numbers of tests; for each file with failures (its source, from the root) the names of the tests
 */
export async function runTests(root, files) {
  const totals = { pass: 0, fail: 0, cancelled: 0, skipped: 0 };
  const seconds = new Map();
  const failed = new Map();
  const stop = new AbortController();
  // Every file's test listens for it; Node would warn of a leak from the eleventh on.
  setMaxListeners(0, stop.signal);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());
  const stream = run({
    files: files.map((file) => join(root, file)),
    // One file more than there are cores, since many wait for processes and timers.
    concurrency: Math.min(2, availableParallelism()) + 1,
    timeout: fileTimeoutMs,
    signal: stop.signal,
  });
  const sourceOfEvent = ({ file = "" }) => sourceOf(relative(root, file).replaceAll("\\", "/"));
  const ended = (event) => {
    if (event.nesting !== 0) return;
    const name = sourceOfEvent(event);
    seconds.set(name, (seconds.get(name) ?? 0) + event.details.duration_ms / 1000);
  };
  stream.on("test:pass", ended);
  stream.on("test:fail", (event) => {
    ended(event);
    const name = sourceOfEvent(event);
    // A suite that fails for its tests alone is no failure of its own; one whose hook fails is.
    if (event.details.error?.failureType === "subtestsFailed") return;
    failed.set(name, [...(failed.get(name) ?? []), event.name]);
  });
  stream.on("test:diagnostic", ({ nesting, message }) => {
    const [, name, count] = /^(pass|fail|cancelled|skipped) (\d+)$/.exec(message) ?? [];
    if (nesting === 0 && name !== undefined) totals[name] = Number(count);
  });
  const text = stream.compose(new spec());
  text.pipe(process.stdout);
  await new Promise((resolve) => text.once("end", resolve));
  rememberSeconds(root, seconds);
  return { totals, failed };
}
