/** How many devices of a rollout fetch and measure at the same time, and whose turn it is. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import {
  DeviceQuestions,
  type DeviceQuestionsParts,
} from "../../../../../server/fleet/rollout/question-devices.js";
import { lineLeaseMs, LineLeases } from "../../../../../server/services/context/line-leases.js";
import { Places } from "../../../../../server/fleet/rollout/places.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Fact } from "../../../../../shared/journal/fact.js";
import type { RolloutPolicy } from "../../../../../shared/journal/facts/rollout-policy.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import { Rollout, versionId } from "./rollout-under-test.js";

const before = sha256("before");
const second = 1_000;

/** A running rollout to devices that do as a test says. */
function questionsTo(devices: readonly string[], policy: Partial<RolloutPolicy>) {
  const clock = manualClock();
  const rollout = new Rollout({ waves: ["rest"], ...policy });
  rollout.wave(...devices);
  const fetching = new Set<string>();
  /** Devices that have the version. */
  const has = new Set<string>();
  const offline = new Set<string>();
  /** Devices that are connected, and are not welcomed yet. */
  const unwelcomed = new Set<string>();
  const offers: string[] = [];
  let active: Record<string, unknown> = { a: { versionId: before } };
  const repository = {
    fleet: "f",
    rollouts: () => [rollout.state],
    rollout: () => rollout.state,
    device: () => ({ state: "enrolled", lines: ["a"], active, assigned: {}, labels: {} }),
    get: () => ({ versionId: before, record: { device: undefined } }),
    assignment: () => before,
    append: (...facts: readonly Fact[]) => {
      for (const { type, ...fact } of facts)
        if (type === "judged") rollout.judged("passed", (fact as { readonly device: string }).device);
      return Promise.resolve();
    },
  } as unknown as FleetRepository;
  const lineLeases = new LineLeases(clock);
  /** What happens while a device measures. */
  const during: { question: () => unknown } = { question: () => undefined };
  const paired = { samples: 10, meanDifference: -1, standardDeviation: 0.1 };
  const parts = {
    clock,
    log: silentLog(),
    operations: {
      evaluateOnDevice: ({ device }: { readonly device: string }) => {
        during.question();
        if (unwelcomed.has(device)) throw new StemmaError("SERVER_UNREACHABLE", "not welcomed yet");
        if (!has.has(device)) throw new StemmaError("MODEL_NOT_FOUND", "not here");
        const versions = [versionId, before].map((id) => ({ versionId: id, performance: null }));
        return Promise.resolve({ paired, change: null, versions });
      },
    },
    signal: new AbortController().signal,
    fleetOf: () =>
      Promise.resolve({
        isOnline: (device: string) => !offline.has(device),
        fetching: () => fetching,
        assigned: (device: string, allowed?: string) => {
          if (allowed === "r") offers.push(device);
          return Promise.resolve();
        },
        command: () => Promise.reject(new Error("not asked")),
        lineLeases,
      }),
    wake: () => undefined,
    lookAt: () => undefined,
    trialEnded: () => undefined,
  } as unknown as DeviceQuestionsParts;
  const questions = new DeviceQuestions(parts);
  return {
    lineLeases,
    during,
    clock,
    rollout,
    questions,
    fetching,
    has,
    offline,
    unwelcomed,
    offers,
    runNothing: () => {
      active = {};
    },
    /** Looks at the rollout, as its runner does. @returns the devices that were offered the version */
    look: async () => {
      const offered = offers.length;
      const undecided = [...rollout.state.members.values()].filter(({ judged }) => judged === undefined);
      await questions.askSome(
        repository,
        rollout.state,
        undecided.map(({ device }) => device),
      );
      await questions.idle();
      return offers.slice(offered);
    },
  };
}

describe("a rollout with a limit of devices at once", () => {
  it("offers the version to no further device while those that were offered it fetch", async () => {
    const devices = ["d1", "d2", "d3", "d4", "d5"];
    const { clock, look, fetching, has, rollout } = questionsTo(devices, { atOnce: 2 });
    assert.deepEqual(await look(), ["d1", "d2"]);
    assert.deepEqual(await look(), []);
    // Not even where their fetches are not here yet.
    clock.advance(5 * second);
    assert.deepEqual(await look(), []);
    for (const device of ["d1", "d2"]) fetching.add(device);
    for (let minutes = 0; minutes < 5; minutes++) {
      clock.advance(60 * second);
      assert.deepEqual(await look(), []);
    }
    // One has it: it is asked at once, and its place is free.
    fetching.delete("d1");
    has.add("d1");
    await look();
    assert.equal(rollout.state.members.get("d1")?.judged?.verdict, "passed");
    assert.deepEqual(await look(), ["d3"]);
  });

  it("holds the place of a device that has fetched and unpacks the version", async () => {
    const { clock, look, fetching } = questionsTo(["d1", "d2"], { atOnce: 1 });
    await look();
    fetching.add("d1");
    clock.advance(30 * second);
    await look();
    fetching.delete("d1");
    clock.advance(2 * second);
    assert.deepEqual(await look(), []);
    // It does not end: others have their turn first.
    clock.advance(11 * second);
    assert.deepEqual(await look(), ["d2"]);
  });

  it("does not wait for devices that went away, and offers the version again when they are back", async () => {
    const { clock, look, fetching, offline, questions } = questionsTo(["d1", "d2"], { atOnce: 1 });
    await look();
    fetching.add("d1");
    clock.advance(30 * second);
    await look();
    fetching.delete("d1");
    offline.add("d1");
    clock.advance(11 * second);
    assert.deepEqual(await look(), ["d2"]);
    offline.delete("d1");
    questions.connected("f", "d1");
    assert.deepEqual(await look(), []);
    offline.add("d2");
    clock.advance(11 * second);
    assert.deepEqual(await look(), ["d1"]);
  });

  it("offers the version again to a device that could not be reached, and once to one that fetches it", async () => {
    const { clock, look, unwelcomed } = questionsTo(["d1"], { atOnce: 1 });
    unwelcomed.add("d1");
    assert.deepEqual(await look(), ["d1"]);
    clock.advance(second);
    unwelcomed.clear();
    assert.deepEqual(await look(), ["d1"]);
    clock.advance(2 * second);
    assert.deepEqual(await look(), []);
  });

  it("does not let devices that never end hold up the others", async () => {
    const slow = ["s1", "s2"];
    const { clock, look, fetching } = questionsTo([...slow, "d1", "d2", "d3"], { atOnce: 2 });
    assert.deepEqual(await look(), slow);
    for (const device of slow) fetching.add(device);
    const offered: string[] = [];
    const minutesPass = async (minutes: number): Promise<void> => {
      for (let minute = 0; minute < minutes; minute++) {
        clock.advance(60 * second);
        const now = await look();
        offered.push(...now);
        for (const device of now) fetching.add(device);
      }
    };
    await minutesPass(20);
    assert.deepEqual(offered, ["d1", "d2"]);
    await minutesPass(20);
    assert.deepEqual(offered, ["d1", "d2", "d3"]);
  });

  it("counts devices that have nothing to compare the version with, and fetch it to run it", async () => {
    const { clock, look, fetching, rollout, runNothing } = questionsTo(["d1", "d2", "d3"], { atOnce: 1 });
    runNothing();
    const judged = (): number =>
      [...rollout.state.members.values()].filter((member) => member.judged !== undefined).length;
    await look();
    assert.equal(judged(), 1);
    clock.advance(5 * second);
    await look();
    assert.equal(judged(), 1);
    fetching.add("d1");
    clock.advance(60 * second);
    await look();
    assert.equal(judged(), 1);
    fetching.clear();
    clock.advance(11 * second);
    await look();
    assert.equal(judged(), 2);
  });
});

describe("a rollout to a line that a search holds", () => {
  it("asks no device, and takes no answer to what it asked before", async () => {
    const { clock, look, has, during, rollout, lineLeases, questions } = questionsTo(["d1", "d2"], {});
    const judged = () => [...rollout.state.members.values()].filter((member) => member.judged !== undefined);
    const take = () => lineLeases.take({ line: "a", key: "k", holder: "a search\u001b" });
    take();
    assert.deepEqual(await look(), []);
    assert.equal(questions.waits("f", "r", "d1"), "the line is leased: a search\\u{1b}");
    clock.advance(lineLeaseMs);
    has.add("d1").add("d2");
    // It takes the line while the devices measure.
    during.question = take;
    assert.deepEqual(await look(), ["d1", "d2"]);
    assert.deepEqual(judged(), []);
    during.question = () => undefined;
    clock.advance(lineLeaseMs);
    await look();
    assert.equal(judged().length, 2);
  });
});

describe("the places of a rollout", () => {
  it("counts a device that fetches for a quarter of an hour, and one that was offered the version for 10 s", () => {
    const places = new Places();
    places.begin("offered", 0);
    assert.deepEqual([...places.taken(["fetches"], 0)], ["offered", "fetches"]);
    assert.deepEqual([...places.taken(["fetches"], 9_999)], ["offered", "fetches"]);
    assert.deepEqual([...places.taken(["fetches"], 10_000)], ["fetches"]);
    assert.deepEqual([...places.taken(["fetches"], 15 * 60_000 - 1)], ["fetches"]);
    assert.deepEqual([...places.taken(["fetches"], 15 * 60_000)], []);
    // It has ended, and begins again.
    assert.deepEqual([...places.taken([], 15 * 60_000 + 20_000)], []);
    assert.deepEqual([...places.taken(["fetches"], 16 * 60_000)], ["fetches"]);
  });
});
