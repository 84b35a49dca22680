/** What `stemma rollout watch` prints from one look to the next. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { RolloutDetailAnswer } from "../../../../../server/interface/api/rollouts/rollout-definitions.js";
import {
  changesOf,
  describeMember,
  headOfRollout,
} from "../../../../../server/fleet/rollout/rollout-text.js";
import { policyOf } from "../../../../../server/fleet/rollout/policy.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

type Member = RolloutDetailAnswer["members"][number];

function member(device: string, verdict: Member["verdict"], switched = false): Member {
  const because = verdict === null ? "it fetches the version" : "on 9 samples losses differ by -1 ± 0.1";
  return { device, wave: 1, joinedAtMs: 0, online: true, verdict, because, switched, before: null };
}

function rollout(phase: RolloutDetailAnswer["phase"], wave: number, members: Member[]): RolloutDetailAnswer {
  const passed = members.filter(({ verdict }) => verdict === "passed").length;
  const switched = members.filter((each) => each.switched).length;
  const undecided = members.length - passed;
  return {
    name: "r",
    line: "soh",
    versionId: sha256("m"),
    model: "soh:2",
    select: "all",
    policy: policyOf({}),
    phase,
    because: "",
    phaseAtMs: 0,
    createdAtMs: 0,
    wave,
    devices: { undecided, passed, switched, kept: 0, worse: 0, failed: 0, left: 0, unknown: 0 },
    evidence: 0,
    members,
  };
}

it("prints phases, waves and devices once, when they change", () => {
  const started = rollout("running", 0, []);
  const joined = rollout("running", 1, [member("a", null), member("b", null)]);
  const judged = rollout("running", 1, [member("a", "passed"), member("b", null)]);
  const done = rollout("done", 1, [member("a", "passed", true), member("b", null)]);
  assert.deepEqual(changesOf(undefined, started), ["r is running"]);
  assert.deepEqual(changesOf(started, joined), [
    "wave 1 of 3",
    "1 a undecided: it fetches the version",
    "1 b undecided: it fetches the version",
  ]);
  assert.deepEqual(changesOf(joined, joined), []);
  assert.deepEqual(changesOf(joined, judged), ["1 a switching: on 9 samples losses differ by -1 ± 0.1"]);
  assert.deepEqual(changesOf(judged, done), [
    "1 a switched: on 9 samples losses differ by -1 ± 0.1",
    "r is done",
  ]);
  assert.deepEqual(headOfRollout(done), [
    "r: soh:2 to soh, done, wave 1 of 3",
    "  devices: 1 switched, 1 undecided",
  ]);
});

it("says of no device that it switches which was given another version since", () => {
  const back = { ...member("a", "passed", true), givenOther: true } as const;
  const missed = { ...member("b", "passed"), givenOther: true } as const;
  assert.deepEqual([back, missed].map(describeMember), [
    "1 a switched, given another version or enrolled again since: on 9 samples losses differ by -1 ± 0.1",
    "1 b given another version, enrolled again or no longer served before it switched: on 9 samples losses differ by -1 ± 0.1",
  ]);
  const undone = rollout("undone", 1, [back, missed]);
  const devices = { ...undone.devices, replaced: 1, missed: 1 };
  assert.deepEqual(headOfRollout({ ...undone, devices }), [
    "r: soh:2 to soh, undone, wave 1 of 3",
    "  devices: 1 switched (1 given another version or enrolled again since), 1 given another version, enrolled again or no longer served before they switched",
  ]);
});
