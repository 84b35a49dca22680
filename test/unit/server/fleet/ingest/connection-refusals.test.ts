/** Refused connections: all are counted, few are said, and strangers fill neither the log nor the memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionRefusals } from "../../../../../server/fleet/ingest/sessions/connection-refusals.js";

const ended = { code: "CERTIFICATE_ENDED", message: "it ended", address: "::1" } as const;
const revoked = { code: "DEVICE_REVOKED", message: "it was revoked", address: "::2" } as const;

test("a device that knocks without end is said ever more seldom", () => {
  const refusals = new ConnectionRefusals();
  let said = 0;
  const seconds = 2 ** 18;
  for (let nowMs = 0; nowMs < seconds; nowMs++)
    if (refusals.add("car", ended, { isDevice: true, nowMs }) !== undefined) said++;
  assert.equal(said, 19);
  assert.equal(refusals.counts.get("CERTIFICATE_ENDED"), seconds);
  assert.deepEqual(refusals.of("car"), [{ ...ended, count: seconds, atMs: seconds - 1 }]);
});

test("another reason is said at once, and the newest one comes first", () => {
  const refusals = new ConnectionRefusals();
  for (let nowMs = 0; nowMs < 7; nowMs++) refusals.add("car", ended, { isDevice: true, nowMs });
  assert.equal(refusals.add("car", revoked, { isDevice: true, nowMs: 9 }), 1);
  assert.deepEqual(
    refusals.of("car").map(({ code, count, atMs }) => [code, count, atMs]),
    [
      ["DEVICE_REVOKED", 1, 9],
      ["CERTIFICATE_ENDED", 7, 6],
    ],
  );
  assert.deepEqual(refusals.of("van"), []);
});

test("names that are made up one after another are said no more than a bounded number of times", () => {
  const refusals = new ConnectionRefusals();
  let said = 0;
  for (let at = 0; at < 100_000; at++)
    if (refusals.add(`made-up-${at}`, ended, { isDevice: false, nowMs: at }) !== undefined) said++;
  assert.ok(said <= 1020, `${said}`);
  assert.deepEqual(refusals.of("made-up-1"), []);
});
