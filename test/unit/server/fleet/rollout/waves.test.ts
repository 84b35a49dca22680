/** Which devices the waves of a rollout have, in which order, and why others have no part. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Standing } from "../../../../../server/fleet/rollout/family.js";
import { chooseDevices } from "../../../../../server/fleet/rollout/choose-devices.js";
import { nextWave, stepWithoutDevices } from "../../../../../server/fleet/rollout/next-step.js";
import { policyOf, rolloutOrder, waveSize } from "../../../../../server/fleet/rollout/policy.js";
import { unreachedLines } from "../../../../../server/fleet/rollout/unreached.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { Rollout } from "./rollout-under-test.js";

describe("the waves of a rollout", () => {
  it("have the number or share of devices that the policy says, and none twice", () => {
    const rollout = new Rollout({ waves: ["2", "50%", "rest"] });
    const candidates = ["a", "b", "c", "d", "e", "f"];
    assert.deepEqual(nextWave(rollout.state, candidates), ["a", "b"]);
    rollout.wave("a", "b");
    assert.deepEqual(nextWave(rollout.state, candidates), ["c", "d", "e"]);
    rollout.wave("c", "d", "e");
    // One that was enrolled meanwhile.
    assert.deepEqual(nextWave(rollout.state, ["new", ...candidates]), ["new", "f"]);
    assert.deepEqual(
      ["1%", "10%", "50%", "100%", "7", "rest"].map((wave) => waveSize(wave, 200)),
      [2, 20, 100, 200, 7, Infinity],
    );
    assert.equal(waveSize("1%", 10), 1);
  });

  it("are in another order for another rollout, and the same when asked again", () => {
    const devices = Array.from({ length: 20 }, (_, i) => `van-${i}`);
    assert.deepEqual(rolloutOrder("a", devices), rolloutOrder("a", [...devices].reverse()));
    assert.notDeepEqual(rolloutOrder("a", devices), rolloutOrder("b", devices));
  });

  it("leave out who cannot take part, with the reason", () => {
    const active = (runs?: Hash) => (runs === undefined ? {} : { a: { versionId: runs } });
    const device = (name: string, change: object = {}) =>
      ({
        device: name,
        state: "enrolled",
        lines: ["a"],
        active: active(),
        ...change,
      }) as unknown as Parameters<typeof chooseDevices>[1][number];
    const rival = new Rollout();
    rival.wave("taken");
    const standings: Readonly<Record<string, Standing>> = {
      tuned: "has",
      later: "newer",
      earlier: "goes back",
    };
    const chosen = chooseDevices(
      { name: "other", line: "a", policy: policyOf({}) },
      [
        device("free", { active: active(sha256("old")) }),
        device("gone", { state: "revoked" }),
        device("cam", { lines: ["cam"] }),
        device("taken"),
        device("tuned"),
        device("later"),
        device("earlier"),
      ],
      [rival.state],
      ({ device: name }) => standings[name] ?? "other",
    );
    assert.deepEqual([...chosen.candidates].sort(), ["earlier", "free"]);
    assert.deepEqual(chosen.goingBack, ["earlier"]);
    assert.deepEqual(
      chosen.excluded.map(({ device: name, because }) => `${name} ${because}`),
      [
        "gone is revoked",
        "cam has no line a",
        "taken is in the rollout r of this line",
        "tuned runs the version, or its own fine-tune of it",
        "later was given a version after this rollout was created that was trained from the version",
      ],
    );
  });

  it("are without options the safe ones: one device first, whoever is worse or cannot tell stops it", () => {
    assert.deepEqual(policyOf({ margin: undefined }), {
      waves: ["1", "10%", "rest"],
      soakMinutes: 0,
      timeoutMinutes: 1440,
      level: 0.05,
      margin: 0,
      maxFailed: 0,
      minAnswered: 0.5,
      own: "replace",
      unmeasured: "fail",
      onFailure: "pause",
      atOnce: 50,
    });
  });

  it("are refused where they cannot be read", () => {
    for (const waves of [["0"], ["rest", "1"], ["101%"], ["x"], ["-1"], ["1.5"]])
      assert.throws(() => policyOf({ waves }), { code: "ROLLOUT_INVALID" }, waves.join());
    for (const level of [1, 0, -0.5, NaN])
      assert.throws(() => policyOf({ level }), { code: "ROLLOUT_INVALID" }, `${level}`);
    for (const waves of [["1", "100%"], ["9%"], ["rest"], ["1000000"]])
      assert.deepEqual(policyOf({ waves }).waves, waves);
    assert.throws(() => policyOf({ windows: ["08:00-09:00", "x"] }), { code: "ROLLOUT_INVALID" });
    assert.deepEqual(policyOf({ windows: ["08:00-09:00"] }).windows, ["08:00-09:00"]);
  });
});

describe("a wave that no device can join", () => {
  const unreached = [
    { device: "van-1", because: "has no line a" },
    { device: "van-2", because: "is revoked" },
    { device: "van-3", because: "has no line a" },
  ];

  it("ends a rollout that has reached some, and says whom it did not reach", () => {
    const rollout = new Rollout({ waves: ["1", "rest"] });
    rollout.wave("van-9");
    assert.deepEqual(stepWithoutDevices(rollout.state, unreached), {
      phase: "done",
      because:
        "no device is left that can take part; not reached: van-1, van-3: has no line a; van-2: is revoked",
    });
    assert.equal(stepWithoutDevices(rollout.state, [])?.because, "no device is left that can take part");
  });

  it("never makes a rollout done that has reached nobody", () => {
    const { state } = new Rollout();
    assert.deepEqual(stepWithoutDevices(state, unreached), {
      phase: "paused",
      because: "no selected device can take part: van-1, van-3: has no line a; van-2: is revoked",
    });
    assert.deepEqual(stepWithoutDevices(state, []), {
      phase: "paused",
      because: "its selection means no device",
    });
  });

  it("waits where the rollout is for devices that come later", () => {
    const rollout = new Rollout({ wait: true });
    assert.equal(stepWithoutDevices(rollout.state, unreached), undefined);
    rollout.wave("van-9");
    assert.equal(stepWithoutDevices(rollout.state, unreached), undefined);
  });

  it("names three devices of a reason, and counts the others", () => {
    const many = Array.from({ length: 5 }, (_, at) => ({ device: `van-${at}`, because: "is revoked" }));
    assert.deepEqual(unreachedLines(many), ["van-0, van-1, van-2 and 2 more: is revoked"]);
  });
});
