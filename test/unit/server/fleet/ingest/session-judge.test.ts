/** Telling a restarted device from a clone by the counter of its sessions. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  emptySessionHistory,
  judgeSession,
  type SessionHistory,
} from "../../../../../server/fleet/ingest/sessions/session-judge.js";

const minute = 60_000;
/** Judges claims one after the other; returns the last verdict. */
function judge(
  claims: readonly (readonly [counter: number, previous: number, atMs: number])[],
  from: SessionHistory = emptySessionHistory,
): { verdict: string; history: SessionHistory } {
  let history = from;
  let verdict = "";
  for (const [counter, previous, atMs] of claims) {
    const judged = judgeSession(history, { counter, previous }, atMs);
    ({ history } = judged);
    verdict = judged.verdict;
  }
  return { verdict, history };
}

test("a device that keeps counting takes over each time, also after failed attempts and in quick succession", () => {
  assert.equal(
    judge([
      [1, 0, 0],
      [2, 1, 10],
      [3, 2, 20],
      [9, 3, 30],
      [10, 9, 40],
    ]).verdict,
    "take-over",
  );
});

test("a counter not higher than the last seen is a clone", () => {
  for (const counter of [5, 4, 0, -1, NaN, 5.5, 2 ** 53])
    assert.equal(
      judgeSession({ lastSeen: 5, returnsAtMs: [] }, { counter }, 0).verdict,
      "clone",
      String(counter),
    );
});

test("a superseded session that returns twice in ten minutes is a clone; once is a lost CONNACK", () => {
  // A is 5, B (a copy that had counted on) takes over as 20, A returns as 21 after its own 5
  assert.equal(
    judge([
      [5, 0, 0],
      [20, 4, minute],
    ]).verdict,
    "take-over",
  );
  assert.equal(
    judge([
      [5, 0, 0],
      [20, 4, minute],
      [21, 5, 2 * minute],
    ]).verdict,
    "clone",
  );
  assert.equal(
    judge([
      [5, 0, 0],
      [20, 4, minute],
      [21, 5, 12 * minute],
    ]).verdict,
    "take-over",
  );
  assert.equal(
    judge([
      [5, 4, 0],
      [6, 4, 1],
      [7, 6, 2],
    ]).verdict,
    "take-over",
    "the CONNACK of 5 was lost",
  );
});

test("a device that does not know what was accepted before is judged by its counter alone", () => {
  assert.equal(
    judge([
      [1, 0, 0],
      [2, 0, 1],
      [3, 0, 2],
      [4, 0, 3],
    ]).verdict,
    "take-over",
  );
  assert.equal(judgeSession({ lastSeen: 3, returnsAtMs: [] }, { counter: 4 }, 0).verdict, "take-over");
});

test("a clone's attempts leave the accepted session as it was", () => {
  assert.equal(
    judge([
      [5, 0, 0],
      [5, 0, 1],
    ]).history.lastSeen,
    5,
  );
});

test("a CONNECT that was given up and comes after the next one is refused, and is no clone's", () => {
  const history = judge([
    [1, 0, 0],
    [4, 1, 1000],
    [5, 4, 2000],
  ]).history;
  const at = (counter: number, atMs: number): string =>
    judgeSession(history, { counter, previous: 1 }, atMs).verdict;
  assert.equal(at(2, 3000), "late");
  assert.equal(at(3, 3000), "late");
  for (const accepted of [1, 4, 5]) assert.equal(at(accepted, 3000), "clone", `${accepted} was accepted`);
  assert.equal(at(2.5, 3000), "clone");
  assert.equal(at(2, 3 * minute), "clone", "it cannot be under way for so long");
  assert.equal(at(6, 3000), "take-over");
  const late = judgeSession(history, { counter: 2 }, 3000);
  assert.deepEqual(late.history, history);
});
