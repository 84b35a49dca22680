/**
 * Which announced version is received next, and what a device is told of one that has to wait. Each upload here waits
 * in its first step, until the test lets it find that its base is unknown, or fail.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Accepted } from "../../../../../server/fleet/ingest/uploads/announcement.js";
import { defaultIngestLimits, type IngestLimits } from "../../../../../server/fleet/ingest/limits.js";
import {
  UploadScheduler,
  type UploadSchedulerParts,
} from "../../../../../server/fleet/ingest/uploads/upload-scheduler.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { WindowBudget } from "../../../../../shared/wire/transfer/window-budget.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

const id = (name: string): Hash => sha256(name);
/** A version, named like "car 1", that was trained from one that nobody knows. */
const accepted = (name: string, bases: readonly string[]): Accepted =>
  ({
    versionId: id(name),
    recordBytes: new Uint8Array(10),
    objects: new Map(),
    generation: 1,
    isClaim: false,
    declared: { tensorBytes: 0, usesTensorBytes: 0, streamed: new Map() },
    record: {
      device: name.split(" ")[0],
      line: name,
      bases: bases.map(id),
      objects: { tree: id(`${name} tree`) },
    },
  }) as unknown as Accepted;

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
};

function schedulerUnderTest(limits: Partial<IngestLimits> = {}) {
  const clock = manualClock();
  /** Uploads that wait in their first step, by name in the order in which they began. */
  const waiting = new Map<string, (error: Error) => void>();
  const began: string[] = [];
  const known = new Set<Hash>();
  const told: unknown[] = [];
  const events: string[] = [];
  const recorded: string[] = [];
  const repository = {
    fleet: "f",
    hasSent: () => false,
    hasHad: (_: string, version: Hash) => version !== id("unknown"),
    assignment: () => undefined,
    claim: () => undefined,
    get: (version: Hash) =>
      known.has(version) || began.some((name) => version === id(`before ${name}`))
        ? { versionId: version, state: "stored", record: { objects: { tree: version } } }
        : undefined,
    objects: {
      has: () => true,
      read: (_: string, tree: Hash) =>
        new Promise((_resolve, reject) => {
          waiting.set(began.find((name) => tree === id(`before ${name}`)) ?? "?", reject);
        }),
      lease: () => ({ id: "lease" }),
      release: () => undefined,
    },
  };
  const scheduler = new UploadScheduler({
    repository,
    clock,
    random: seededRandom("upload-scheduler.test"),
    budget: new WindowBudget(1 << 20),
    log: silentLog(),
    limits: { ...defaultIngestLimits, ...limits },
    events: { emit: ({ event }: { readonly event: string }) => events.push(event) },
    sender: {
      send: (device: string, { type, reason }: { readonly type: string; readonly reason?: string }) => {
        if (type !== "blockRequest")
          told.push(`${device} ${type}${reason === undefined ? "" : ` ${reason}`}`);
        return Promise.resolve(true);
      },
      refuse: (
        device: string,
        { code, retryAfterMs }: { readonly code: string; readonly retryAfterMs?: number },
      ) => told.push(`${device} ${code} ${retryAfterMs ?? "for good"}`),
    },
    predecessorOf: ({ line }: { readonly line: string }) => {
      began.push(line);
      return id(`before ${line}`);
    },
    onAlreadyRecorded: (_: string, { versionId }: { readonly versionId: Hash }) => recorded.push(versionId),
  } as unknown as UploadSchedulerParts);
  const announce = async (name: string, ...bases: string[]) => {
    await scheduler.announced(name.split(" ")[0]!, accepted(name, bases.length > 0 ? bases : ["unknown"]));
    await turns();
  };
  /** Lets an upload find that its base is unknown, or fail. */
  const end = async (name: string, error: Error = new StemmaError("OBJECT_MISSING", "no")) => {
    waiting.get(name)!(error);
    await turns();
  };
  return { scheduler, clock, announce, end, began, known, told, events, recorded };
}

describe("uploads beside each other", () => {
  it("are as many as a device and the fleet may have, in the order in which they came", async () => {
    const { scheduler, announce, end, began } = schedulerUnderTest({
      receptionsPerDevice: 1,
      receptionsTotal: 2,
    });
    for (const name of ["a 1", "a 2", "b 1", "c 1", "d 1", "d 2"]) await announce(name);
    assert.deepEqual(began, ["a 1", "b 1"]);
    assert.equal(scheduler.active, 2);
    await end("b 1");
    assert.deepEqual(began, ["a 1", "b 1", "c 1"], "the next device that waits");
    await end("a 1");
    assert.deepEqual(began.slice(3), ["a 2"], "its own next one");
    await end("c 1");
    await end("a 2");
    assert.deepEqual(began.slice(4), ["d 1"], "one of a device");
    await end("d 1");
    assert.deepEqual(began.slice(5), ["d 2"]);
    await end("d 2");
    assert.equal(scheduler.active, 0);
  });

  it("begin once, however often they are announced, and not where the version was recorded meanwhile", async () => {
    const { scheduler, announce, end, began, known, recorded } = schedulerUnderTest({
      receptionsPerDevice: 1,
    });
    for (const name of ["a 1", "a 2", "a 3", "a 2", "a 1"]) await announce(name);
    assert.deepEqual(began, ["a 1"]);
    known.add(id("a 2"));
    await end("a 1");
    assert.deepEqual(began, ["a 1", "a 3"]);
    assert.deepEqual(recorded, [id("a 2")]);
    await end("a 3");
    assert.deepEqual([began.length, scheduler.active, scheduler.parked], [2, 0, 2]);
  });

  it("end with the connection of their device, and so do those that wait", async () => {
    const { scheduler, announce, end, began } = schedulerUnderTest({
      receptionsPerDevice: 1,
      receptionsTotal: 1,
    });
    for (const name of ["a 1", "a 2", "b 1", "c 1"]) await announce(name);
    scheduler.interrupt("a");
    scheduler.interrupt("b");
    await end("a 1");
    assert.deepEqual(began, ["a 1", "c 1"]);
    assert.equal(scheduler.parked, 0, "it is resumed when it is announced again");
  });
});

describe("a version whose base is unknown", () => {
  it("waits for it, and the device is told so and asked for it", async () => {
    const { scheduler, announce, end, began, told, events, known } = schedulerUnderTest();
    await announce("a 1");
    await end("a 1");
    assert.deepEqual(told, ["a parked", "a want base"]);
    assert.deepEqual(events, ["parked"]);
    assert.equal(scheduler.parked, 1);
    known.add(id("unknown"));
    scheduler.baseIsKnown(id("unknown"));
    await turns();
    assert.deepEqual([scheduler.parked, began], [0, ["a 1", "a 1"]]);
    known.delete(id("unknown"));
    await end("a 1");
    assert.equal(told.at(-1), "a want base", "it is received with its base");
  });

  it("is refused for now where too many wait", async () => {
    const { scheduler, announce, end, told } = schedulerUnderTest({ parkedPerDevice: 1 });
    for (const name of ["a 1", "a 2"]) {
      await announce(name);
      await end(name);
    }
    assert.deepEqual(told, ["a parked", "a want base", "a QUOTA_EXCEEDED 30000"]);
    assert.equal(scheduler.parked, 1);
  });

  it("is received without it where its device says that it has none, and where no other device says so", async () => {
    const { scheduler, announce, end, began, told } = schedulerUnderTest();
    for (const name of ["a 1", "b 1"]) {
      await announce(name);
      await end(name);
    }
    scheduler.refusedByDevice("b", id("unknown"), "BASE_MISSING");
    await turns();
    assert.deepEqual([scheduler.parked, began], [1, ["a 1", "b 1", "b 1"]]);
    await end("b 1");
    assert.equal(told.at(-1), "b want objects");
    scheduler.refusedByDevice("b", id("a 1"), "BASE_MISSING");
    await turns();
    assert.deepEqual([scheduler.parked, began.length], [1, 3], "another device's");
    scheduler.refusedByDevice("a", id("a 1"), "BASE_MISSING");
    await turns();
    assert.deepEqual([scheduler.parked, began.at(-1)], [0, "a 1"]);
  });

  it("is received without it where it is announced again, unless the base is under way", async () => {
    const { scheduler, announce, end, told } = schedulerUnderTest();
    await announce("a 1", "a 0");
    await end("a 1");
    await announce("a 0");
    // The base is received now, then waits for its own base.
    await announce("a 1", "a 0");
    await end("a 1");
    assert.equal(scheduler.parked, 1);
    await end("a 0");
    assert.equal(scheduler.parked, 2);
    await announce("a 1", "a 0");
    await end("a 1");
    assert.equal(scheduler.parked, 2);
    assert.ok(told.every((each) => each === "a parked" || each === "a want base"));
    // Nobody sends the base of the base.
    await announce("a 0");
    await end("a 0");
    assert.equal(told.at(-1), "a want objects");
    assert.deepEqual([scheduler.parked, scheduler.active], [1, 1]);
    scheduler.refusedByDevice("b", id("a 0"), "MODEL_NOT_FOUND");
    scheduler.refusedByDevice("a", id("a 1"), "MODEL_NOT_FOUND");
    await turns();
    assert.equal(scheduler.active, 1, "another device's, or another version");
    scheduler.refusedByDevice("a", id("a 0"), "MODEL_NOT_FOUND");
    await turns();
    assert.equal(scheduler.active, 0, "its device does not have it any more");
  });

  it("is received without it once it was refused for that, also after a connection", async () => {
    const { scheduler, clock, announce, end, told } = schedulerUnderTest({ parkedMs: 1000 });
    await announce("a 1");
    await end("a 1");
    clock.advance(1000);
    scheduler.expire();
    scheduler.interrupt("a");
    await announce("a 1");
    await end("a 1");
    assert.equal(told.at(-1), "a want objects");
    await scheduler.close();
    assert.equal(scheduler.active, 0);
  });

  it("waits as long as one of its bases is under way, and is received without them after that", async () => {
    const { scheduler, announce, end, told } = schedulerUnderTest();
    await announce("a 1", "a 0", "unknown");
    await end("a 1");
    await announce("a 0");
    await announce("a 1", "a 0", "unknown");
    await end("a 1");
    assert.equal(told.at(-1), "a want base");
    scheduler.refusedByDevice("a", id("a 1"), "BASE_MISSING");
    await turns();
    await end("a 1");
    assert.equal(told.at(-1), "a want objects");
    // That is remembered for the next connection.
    scheduler.interrupt("a");
    await turns();
    await announce("a 1", "a 0", "unknown");
    await end("a 1");
    assert.equal(told.at(-1), "a want objects");
  });

  it("is forgotten with the connection of its device alone", async () => {
    const { scheduler, announce, end, told } = schedulerUnderTest();
    for (const name of ["a 1", "b 1"]) {
      await announce(name);
      await end(name);
    }
    scheduler.interrupt("a");
    assert.equal(scheduler.parked, 1);
    // So it is no second announcement of one that waits.
    await announce("a 1");
    await end("a 1");
    assert.equal(told.at(-1), "a want base");
    assert.equal(scheduler.parked, 2);
  });

  it("is named as the reason why the base is needed, wherever it waits", async () => {
    const { scheduler, announce, end } = schedulerUnderTest({ receptionsPerDevice: 1 });
    await announce("a 1", "unknown");
    await end("a 1");
    for (const [name, base] of [
      ["a 2", "x"],
      ["a 3", "y"],
      ["b 1", "z"],
    ] as const)
      await announce(name, base);
    assert.deepEqual([...scheduler.basesUnderWay().keys()].sort(), ["unknown", "x", "y", "z"].map(id).sort());
  });

  it("is refused for now when its time is over", async () => {
    const { scheduler, clock, announce, end, told } = schedulerUnderTest({ parkedMs: 1000 });
    await announce("a 1");
    await end("a 1");
    clock.advance(999);
    scheduler.expire();
    assert.equal(scheduler.parked, 1);
    clock.advance(1);
    scheduler.expire();
    assert.deepEqual([scheduler.parked, told.at(-1)], [0, "a BASE_MISSING 1000"]);
  });
});

it("what is over a device's queue is refused for now", async () => {
  const { announce, told } = schedulerUnderTest({ receptionsPerDevice: 1, waitingPerDevice: 1 });
  for (const name of ["a 1", "a 2", "a 3", "b 1"]) await announce(name);
  assert.deepEqual(told, ["a QUOTA_EXCEEDED 10000"]);
});

it("a scheduler that closes begins nothing more, and ends with what is under way", async () => {
  const { scheduler, announce, end, began } = schedulerUnderTest({
    receptionsPerDevice: 1,
    receptionsTotal: 1,
  });
  for (const name of ["a 1", "a 2", "b 1"]) await announce(name);
  let isClosed = false;
  const closing = scheduler.close().then(() => {
    isClosed = true;
  });
  await announce("c 1");
  assert.equal(isClosed, false);
  await end("a 1");
  await closing;
  assert.deepEqual([began, scheduler.active, scheduler.parked], [["a 1"], 0, 0]);
});

it("what fails here is told to the device, which tries again later", async () => {
  const { scheduler, announce, end, told, events } = schedulerUnderTest();
  await announce("a 1");
  await end("a 1", new TypeError("no"));
  assert.deepEqual([told, events], [["a INTERNAL 60000"], ["refused"]]);
  assert.equal(scheduler.active, 0);
  await scheduler.close();
});
