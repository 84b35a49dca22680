/** The summary of a study: spreads of differences, equal pairs, overheads, and the positive control. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeStudy, studyColumns } from "../../../../../server/cli/reproduce/study-text.js";
import {
  summarizeStudy,
  type PairFinding,
  type StudyPair,
} from "../../../../../shared/determinism/reproduce/study.js";

const finding = (difference?: number): PairFinding => ({
  criterion: "accuracy",
  verdict: difference === 0 ? "equal" : "different",
  ...(difference === undefined || difference === 0 ? {} : { difference }),
});
const pairOf = (changed: Partial<StudyPair>): StudyPair => ({
  setup: "free",
  pair: 1,
  seconds: [1, 1],
  verdict: "different",
  findings: [],
  ...changed,
});

test("differences have their largest and their deviation over pairs, in which equal is 0", () => {
  const { setups } = summarizeStudy(
    [3, 0, 1].map((difference, at) =>
      pairOf({
        pair: at + 1,
        verdict: difference === 0 ? "equal" : "different",
        findings: [finding(difference)],
      }),
    ),
  );
  assert.equal(setups.length, 1);
  assert.equal(setups[0]?.equal, 1);
  const { deviation, ...spread } = setups[0]?.spreads.accuracy ?? {};
  assert.deepEqual(spread, { pairs: 3, different: 2, largest: 3 });
  assert.equal(deviation?.toFixed(6), "1.527525");
});

test("figures keep their size: 420 differing predictions are not 42", () => {
  for (const [difference, shown] of [
    [420, "420 (0)"],
    [1204, "1204 (0)"],
    [99.95, "100 (0)"],
    [0.05000000000000001, "0.05 (0)"],
  ] as const) {
    const pairs = [1, 2].map((pair) => pairOf({ pair, findings: [finding(difference)] }));
    const summary = summarizeStudy(pairs);
    const column = studyColumns(summary).at(-1);
    assert.equal(column?.value(summary.setups[0]!), shown);
  }
});

test("a difference without a number has neither, and what one side lacks is not counted", () => {
  const [summary] = summarizeStudy([
    pairOf({ findings: [finding(), { criterion: "losses", verdict: "only in A" }] }),
    pairOf({ pair: 2, findings: [finding(2)] }),
  ]).setups;
  assert.deepEqual(summary?.spreads, { accuracy: { pairs: 2, different: 2 } });
});

test("a replay that drew otherwise, and a pair of which one side lacks something, are never equal", () => {
  const summary = summarizeStudy([
    pairOf({ setup: "record", verdict: "equal", diverged: "draw 3" }),
    pairOf({ setup: "record", pair: 2, verdict: "incomplete" }),
    pairOf({ setup: "record", pair: 3, verdict: "equal" }),
  ]);
  const { setups } = summary;
  assert.deepEqual([setups[0]?.equal, setups[0]?.pairs], [1, 3]);
  const text = describeStudy(summary).join("\n");
  assert.match(
    text,
    /record: 1 of 3 replays did not draw what was recorded and count as not equal \(pair 1: draw 3\)/,
  );
  assert.match(
    text,
    /record: in 1 of 3 pairs one run recorded what the other did not; they count as not equal/,
  );
});

test("overheads compare recorded runs, replays and patched runs with their bare ones", () => {
  const { overheads, profile } = summarizeStudy([
    pairOf({ seconds: [1, 2] }),
    pairOf({ setup: "record", seconds: [3, 6], profileBytes: 100, modelBytes: 1000 }),
    pairOf({ setup: "patch", seconds: [2, 2] }),
    pairOf({ setup: "record-patch", seconds: [2, 4], profileBytes: 300, modelBytes: 1000 }),
  ]);
  assert.deepEqual(
    overheads.map(({ of, against, ratio, delta }) => [of, against, ratio, delta]),
    [
      ["recording", "free", 2, 1],
      ["replaying", "free", 4, 1],
      ["recording", "patch", 1, 0],
      ["replaying", "patch", 2, 1],
      ["the patch", "free", 4 / 3, 0.5],
    ],
  );
  assert.deepEqual(profile, { bytes: 200, modelBytes: 1000 });
});

test("the control is that a bare pair differed; without bare pairs there is none", () => {
  const equal = pairOf({ pair: 2, verdict: "equal" });
  const lastLine = (pairs: readonly StudyPair[]): string | undefined =>
    describeStudy(summarizeStudy(pairs)).at(-1);
  assert.deepEqual(summarizeStudy([pairOf({}), equal]).control, { different: 1, pairs: 2 });
  assert.match(lastLine([pairOf({}), equal]) ?? "", /^control: 1 of 2 bare pairs differed, so equal pairs/);
  assert.match(lastLine([equal]) ?? "", /^control FAILED: none of 1 bare pairs differed/);
  assert.equal(summarizeStudy([pairOf({ setup: "seed" })]).control, null);
});
