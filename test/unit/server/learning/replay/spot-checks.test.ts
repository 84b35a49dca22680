/** The choice of segments, what it misses, and what is said of the segments that were run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  bisectSegment,
  describeParting,
  findParting,
} from "../../../../../server/learning/replay/bisect-segment.js";
import {
  chanceToMiss,
  chooseSegments,
  describeChance,
  describeMissed,
} from "../../../../../server/learning/replay/choose-segments.js";
import { judgeSegments, type RunSegment } from "../../../../../server/learning/replay/judge-segments.js";
import type { PreparedTraining } from "../../../../../server/learning/replay/train-again.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { StateCommitment } from "../../../../../shared/provenance/state-commitment.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { SegmentRun } from "../../../../../shared/train/training.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";

const leaf = (text: string | number): Hash => sha256(`leaf ${text}`);
const randomOf = (seed: number) => {
  const next = seededNumbers(seed);
  return { bytes: (count: number) => Uint8Array.from({ length: count }, () => Math.floor(next() * 256)) };
};

describe("chosen segments", () => {
  it("are as many as asked for, each once, in order, and every one may be among them", () => {
    const random = randomOf(1);
    const seen = new Map<number, number>();
    for (let round = 0; round < 2000; round++) {
      const chosen = chooseSegments(random, 3, 10);
      assert.equal(new Set(chosen).size, 3);
      assert.deepEqual(
        chosen,
        [...chosen].sort((a, b) => a - b),
      );
      for (const each of chosen) seen.set(each, (seen.get(each) ?? 0) + 1);
    }
    assert.equal(seen.size, 10);
    // 600 are expected of each, with a deviation of about 20.
    for (const count of seen.values()) assert.ok(count > 480 && count < 720, String(count));
    assert.deepEqual(chooseSegments(random, 10, 4), [0, 1, 2, 3]);
  });

  it("miss wrong ones with the chance that counting gives", () => {
    assert.equal(chanceToMiss(1, { checked: 10, of: 200 }), 0.95);
    assert.ok(Math.abs(chanceToMiss(100, { checked: 10, of: 200 }) - 0.000_771) < 1e-5);
    assert.equal(chanceToMiss(4, { checked: 7, of: 10 }), 0);
    // All choices of 3 of 7 that avoid 2 wrong ones: 10 of 35.
    assert.ok(Math.abs(chanceToMiss(2, { checked: 3, of: 7 }) - 10 / 35) < 1e-12);
    assert.equal(
      describeMissed(10, 200),
      "Of 200 segments a single wrong one is missed in 95 of 100 cases; 100 wrong ones are missed in 1 of 1,296 cases.",
    );
    assert.equal(describeMissed(4, 4), "All 4 segments were run again.");
    assert.equal(describeMissed(1, 1), "Its only segment was run again.");
    assert.equal(describeMissed(1, 2), "Of 2 segments a single wrong one is missed in 50 of 100 cases.");
    assert.equal(describeChance(0.9975), "9,975 of 10,000 cases");
    assert.equal(describeChance(0), "no case");
    // A chance that is too small for a number is still one.
    for (const checked of [60, 1000])
      assert.match(describeMissed(checked, 4095), /missed in less than 1 of 1,000,000,000 cases\.$/);
    assert.match(describeMissed(150, 200), /missed in no case\.$/);
  });
});

const commitment = { leaves: [leaf(0), leaf(2), leaf(4), leaf(5)] } as unknown as StateCommitment;
const run = (index: number): RunSegment => ({
  index,
  job: { file: "f", fromStep: 2 * index, toStep: Math.min(5, 2 * index + 2), isLast: index === 2 },
});
const gave = (index: number, change: Partial<SegmentRun> = {}): SegmentRun => ({
  begin: commitment.leaves[index],
  leaves: [{ step: run(index).job.toStep, leaf: commitment.leaves[index + 1] as Hash }],
  ...change,
});

describe("segments that were run again", () => {
  const judge = (results: readonly SegmentRun[], indices = [0, 1, 2]) =>
    judgeSegments(commitment, indices.map(run), results);

  it("pass where each begins and ends in what was committed to", () => {
    assert.deepEqual(judge([gave(0), gave(1), gave(2)]), { refuted: undefined, unusable: [], passed: 3 });
  });

  it("are refuted by another end, by an end at another step, and by a step that cannot be done", () => {
    const ends: readonly Partial<SegmentRun>[] = [
      { leaves: [{ step: 4, leaf: leaf("other") }] },
      { leaves: [{ step: 3, leaf: leaf(4) }] },
      { leaves: [{ step: 5, leaf: leaf(4) }] },
      { leaves: [] },
      { leaves: [], failed: "not finite" },
    ];
    for (const end of ends) {
      const { refuted, refutedSegment } = judge([gave(0), gave(1, end), gave(2)]);
      assert.ok(refuted !== undefined && refuted !== "");
      assert.equal(refutedSegment, 1);
    }
  });

  it("are not judged where another state came than was committed to", () => {
    const { refuted, unusable, passed } = judge([
      gave(0),
      gave(1, { begin: leaf("other") }),
      gave(2, { begin: undefined, unusable: "damaged" }),
    ]);
    assert.deepEqual([refuted, unusable.length, passed], [undefined, 2, 1]);
  });

  it("say what a device's state holds in few and plain characters", () => {
    const text = `\u001b[2J${"x".repeat(1e6)}`;
    const { unusable } = judge([gave(0), gave(1, { begin: undefined, unusable: text }), gave(2)]);
    const { refuted } = judge([gave(0), gave(1, { leaves: [], failed: text })]);
    for (const said of [unusable[0], refuted]) {
      assert.ok(said !== undefined && said.length < 800, String(said?.length));
      assert.ok(!said.includes("\u001b"));
    }
  });

  it("are refuted where the first state is another one, whatever was chosen", () => {
    const first: RunSegment = { index: undefined, job: { fromStep: 0, toStep: 0, isLast: false } };
    const wrong = judgeSegments(commitment, [first, run(1)], [{ begin: leaf("other"), leaves: [] }, gave(1)]);
    assert.ok(wrong.refuted !== undefined);
    const right = judgeSegments(commitment, [first, run(1)], [{ begin: leaf(0), leaves: [] }, gave(1)]);
    assert.deepEqual([right.refuted, right.passed], [undefined, 1]);
    assert.ok(judgeSegments(commitment, [first], []).refuted !== undefined);
  });
});

describe("where a device and a server part", () => {
  it("is unknown where the device answers nothing or nonsense, or an error: the refutation stands", async () => {
    const training = { job: {}, options: {} } as unknown as PreparedTraining;
    const answers: readonly (() => Promise<{ readonly code: string; readonly result: unknown }>)[] = [
      ...(["ENVELOPE_MALFORMED", "QUOTA_EXCEEDED", "TIMED_OUT", "SERVER_UNREACHABLE"] as const).map(
        (code) => () => Promise.reject(new StemmaError(code, "x")),
      ),
      () => Promise.resolve({ code: "USAGE", result: null }),
      () => Promise.resolve({ code: "", result: { leaves: "!" } }),
    ];
    for (const command of answers) {
      const asked = {
        fleet: { isOnline: () => true, command },
        ...{
          device: "van",
          versionId: leaf("version"),
          model: "soh:2",
          architecture: () => assert.fail("nothing came"),
        },
      };
      assert.equal(await bisectSegment({ ...asked, segment: run(1) }, training), undefined);
    }
  });

  const here = { leaves: [3, 4, 5].map((step) => ({ step, leaf: leaf(step) })) };
  const describePart = (there: readonly Hash[], everySteps: number) => {
    const found = findParting(here, there, { everySteps, fromStep: 2 });
    return found && describeParting(found, undefined, "soh:2");
  };
  const told = (...there: readonly Hash[]) => describePart(there, 1);

  it("is not awaited once the check has to end", async () => {
    const ending = new AbortController();
    const options = { signal: ending.signal };
    const training = { job: {}, options } as unknown as PreparedTraining;
    const command = () => {
      ending.abort();
      return new Promise<never>(() => undefined);
    };
    const asked = {
      fleet: { isOnline: () => true, command },
      ...{
        device: "van",
        versionId: leaf("version"),
        model: "soh:2",
        architecture: () => assert.fail("nothing came"),
      },
    };
    assert.equal(await bisectSegment({ ...asked, segment: run(1) }, training), undefined);
  });

  it("is the first step with another state", () => {
    assert.match(
      told(leaf(3), leaf("x"), leaf("y")) ?? "",
      /in step 4\. .*`stemma probe soh:2 --file there.json` on the device/,
    );
    assert.match(told(leaf("x"), leaf("y"), leaf("z")) ?? "", /in step 3\./);
    assert.match(told(leaf(3)) ?? "", /in step 4\./);
    assert.match(describePart([leaf(3), leaf("x"), leaf("y")], 5) ?? "", /steps 4 to 4/);
  });

  it("is nowhere for a device that comes to the server's states, and unknown for one that gives none", () => {
    assert.match(told(leaf(3), leaf(4), leaf(5)) ?? "", /same states as this server/);
    assert.match(told(leaf(3), leaf(4), leaf(5), leaf("more")) ?? "", /same states as this server/);
    assert.equal(told(), undefined);
  });
});
