/** A process without file descriptors: counted each second, said once in a while. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { watchDescriptors } from "../../../../shared/adapters/descriptor-watch.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { nameMissingDescriptors } from "../../../../shared/connection-error.js";
import { manualClock } from "../../../helpers/manual-clock.js";

const systemError = (code: string): Error => Object.assign(new Error(`${code}: open`), { code, path: "/x" });

test("seconds without descriptors are counted, and logged at most once a minute", () => {
  const clock = manualClock();
  const logged: string[] = [];
  const log = {
    ...silentLog(),
    error: (event: string, fields?: object) => logged.push(`${event} ${JSON.stringify(fields)}`),
  };
  let state: string | undefined;
  const watch = watchDescriptors({ clock, log }, () => {
    if (state !== undefined) throw systemError(state);
  });
  clock.advance(10_000);
  assert.deepEqual([watch.seconds, logged], [0, []]);
  state = "EMFILE";
  clock.advance(59_000);
  assert.equal(watch.seconds, 59);
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? "", /^descriptors-exhausted .*EMFILE.*LimitNOFILE/);
  clock.advance(600_000);
  assert.equal(logged.length, 11);
  state = "EACCES";
  clock.advance(600_000);
  assert.deepEqual([watch.seconds, logged.length], [659, 11]);
  watch.close();
  state = "ENFILE";
  clock.advance(10_000);
  assert.equal(watch.seconds, 659);
});

test("an error that says so is typed with the limit to raise; others stay", () => {
  const named: Error = nameMissingDescriptors(systemError("EMFILE"));
  assert.ok(isStemmaError(named, "FILE_FAILED"));
  assert.match(named.message, /^EMFILE: open: this process has no file descriptor left.*ulimit -n/);
  const other = systemError("EACCES");
  assert.equal(nameMissingDescriptors(other), other);
});
