/** Which lines are offered what they are assigned: never an ancestor of what they have trained since, by itself. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Offers } from "../../../../../server/fleet/ingest/downloads/offers.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const version = (name: string): Hash => sha256(name);

interface FleetOptions {
  /** What the server recorded that a line runs. */
  readonly active?: Readonly<Record<string, Hash>>;
  readonly assigned: Readonly<Record<string, Hash>>;
  /** Lines that activated nothing since the assignment. */
  readonly unanswered?: readonly string[];
}

/** A device whose lines are assigned versions, on a server that knows some versions and claims. */
class Fleet {
  readonly versions = new Map<Hash, readonly Hash[]>();
  readonly claims = new Map<Hash, readonly Hash[]>();
  readonly retired = new Set<Hash>();
  readonly offered: string[] = [];
  /** Versions whose signed input pipeline is not there any more. */
  readonly withoutPipeline: Hash[] = [];
  /** Text of the manifest of the version's release. */
  readonly manifests = new Map<Hash, string>();
  /** What a rollout gives the device to keep. */
  staged: readonly { readonly line: string; readonly versionId: Hash }[] = [];
  readonly offers: Offers;
  readonly clock = manualClock();

  constructor({ active = {}, assigned, unanswered = [] }: FleetOptions) {
    const summary = (bases: readonly Hash[] | undefined, versionId: Hash) =>
      bases === undefined
        ? undefined
        : {
            versionId,
            name: "m",
            version: 1,
            state: this.retired.has(versionId) ? "retired" : "stored",
            record: { bases, objects: {} },
          };
    const repository = {
      fleet: "f",
      objects: { read: () => Promise.resolve(new Uint8Array(1)), stat: () => undefined },
      device: () => ({
        lines: Object.keys(assigned),
        generation: 1,
        active: Object.fromEntries(Object.entries(active).map(([line, versionId]) => [line, { versionId }])),
      }),
      assignment: (_device: string, line: string) => assigned[line],
      isAssignmentAnswered: (_device: string, line: string) => !unanswered.includes(line),
      stagedFor: () => this.staged,
      releases: () => Promise.resolve(this.#releases()),
      get: (id: Hash) => summary(this.versions.get(id), id),
      claim: (id: Hash) => summary(this.claims.get(id), id),
      checkpoints: { covering: () => Promise.resolve(undefined) },
    } as unknown as ConstructorParameters<typeof Offers>[0]["repository"];
    this.offers = new Offers({
      repository,
      signer: generateKey(seededRandom("offers")),
      sender: {
        send: () => Promise.resolve(true),
        sendBlock: () => Promise.resolve(),
        refuse: () => Promise.resolve(),
      },
      clock: this.clock,
      log: { error: (event, fields) => assert.fail(`${event} ${JSON.stringify(fields)}`) },
      provenLength: () => 1,
      onOffered: (_device, line, versionId) => this.offered.push(`${line} ${versionId}`),
      onPipelineLost: (versionId) => this.withoutPipeline.push(versionId),
    });
    this.versions.set(version("base"), []);
    this.versions.set(version("other"), []);
  }

  #releases(): unknown {
    const all = [...this.manifests];
    const targets = Object.fromEntries(all.map(([versionId]) => [versionId, { custom: { versionId } }]));
    return { published: { targets: { signed: { targets } } }, manifests: Object.fromEntries(all) };
  }

  /** The device connects and names what its lines run. @returns what it is offered */
  async born(runs: Readonly<Record<string, Hash>> = {}): Promise<readonly string[]> {
    this.offers.born(
      "car",
      Object.entries(runs).map(([line, activeVersionId]) => ({ line, sequence: 1, activeVersionId })),
    );
    await this.offers.offerAll("car");
    return this.offered;
  }
}

const base = version("base");
const own = version("own");
const newer = version("newer");
const offerOfBase = `a ${base}`;

describe("what is assigned", () => {
  it("is offered to a line that runs nothing or another model", async () => {
    assert.deepEqual(await new Fleet({ assigned: { a: base } }).born(), [offerOfBase]);
    assert.deepEqual(await new Fleet({ assigned: { a: base } }).born({ a: version("other") }), [offerOfBase]);
  });
  it("is not offered to a line that built on it, also where the server only has claims of that", async () => {
    const fleet = new Fleet({ assigned: { a: base }, active: { a: own } });
    fleet.claims.set(own, [base]);
    assert.deepEqual(await fleet.born({ a: own }), []);
    fleet.claims.set(newer, [own]);
    assert.deepEqual(await fleet.born({ a: newer }), []);
  });
  it("is offered to a line that ran it when the device connected, and runs another since", async () => {
    const fleet = new Fleet({ assigned: { a: base }, active: { a: own }, unanswered: ["a"] });
    assert.deepEqual(await fleet.born({ a: base }), []);
    fleet.offers.activated("car", { line: "a", versionId: own });
    await fleet.offers.offerAll("car");
    assert.deepEqual(fleet.offered, [offerOfBase]);
  });
  it("comes with what a rollout stages for a line of the device", async () => {
    const fleet = new Fleet({ assigned: { a: base }, active: { a: base } });
    fleet.versions.set(newer, [base]);
    fleet.staged = [
      { line: "a", versionId: newer },
      { line: "gone", versionId: newer },
    ];
    assert.deepEqual(await fleet.born({ a: base }), [`a ${newer}`]);
  });
  it("is not offered where it was retired, assigned or staged", async () => {
    const fleet = new Fleet({ assigned: { a: base, b: version("other") } });
    fleet.versions.set(newer, [base]);
    fleet.staged = [
      { line: "a", versionId: newer },
      { line: "b", versionId: base },
    ];
    for (const id of [base, newer]) fleet.retired.add(id);
    assert.deepEqual(await fleet.born(), [`b ${version("other")}`]);
  });
  it("waits for the version that a line runs, where that is not known here yet", async () => {
    const fleet = new Fleet({ assigned: { a: base } });
    assert.deepEqual(await fleet.born({ a: own }), []);
    fleet.claims.set(own, [base]);
    await fleet.offers.recorded("car");
    assert.deepEqual(fleet.offered, []);

    const foreign = new Fleet({ assigned: { a: base } });
    await foreign.born({ a: own });
    foreign.versions.set(own, [version("other")]);
    await foreign.offers.recorded("car");
    assert.deepEqual(foreign.offered, [offerOfBase]);
    await foreign.offers.recorded("car");
    assert.deepEqual(foreign.offered, [offerOfBase], "once");
  });
  it("is forgotten with the connection that waited", async () => {
    const fleet = new Fleet({ assigned: { a: base } });
    await fleet.born({ a: own });
    fleet.offers.ended("car");
    await fleet.offers.recorded("car");
    assert.deepEqual(fleet.offered, []);
  });
  it("is offered again where it was assigned since, whatever the line built on it", async () => {
    const fleet = new Fleet({ assigned: { a: base }, active: { a: own }, unanswered: ["a"] });
    fleet.versions.set(own, [base]);
    assert.deepEqual(await fleet.born({ a: own }), [offerOfBase]);
  });
  it("is offered to each line for itself: another line that runs it does not count", async () => {
    const fleet = new Fleet({ assigned: { a: base, b: base } });
    assert.deepEqual(await fleet.born({ b: base }), [offerOfBase]);
  });
  it("is judged by what both sides know a line to run", async () => {
    const fleet = new Fleet({ assigned: { a: base }, active: { a: own } });
    fleet.versions.set(own, [base]);
    // Trained since, and not announced yet.
    assert.deepEqual(await fleet.born({ a: newer }), []);
  });
  it("says where a version goes out without the input pipeline that its release has", async () => {
    const fleet = new Fleet({ assigned: { a: base, b: version("other") } });
    fleet.manifests.set(base, JSON.stringify({ kind: "stemma-release-manifest", pipeline: version("p") }));
    fleet.manifests.set(version("other"), JSON.stringify({ kind: "stemma-release-manifest" }));
    assert.equal((await fleet.born()).length, 2);
    assert.deepEqual(fleet.withoutPipeline, [base]);
  });
  it("is offered where the device names another version than it reported last", async () => {
    const fleet = new Fleet({ assigned: { a: base }, active: { a: base } });
    assert.deepEqual(await fleet.born({ a: version("other") }), [offerOfBase]);
  });
});

describe("an offer that was lost", () => {
  const minuteMs = 60_000;
  /** In how many minutes from the start an offer came, of those that were looked at. */
  async function offeredAt(fleet: Fleet, upToMinutes: number): Promise<readonly number[]> {
    const minutes: number[] = [];
    for (let minute = 1; minute <= upToMinutes; minute++) {
      const before = fleet.offered.length;
      fleet.clock.advance(minuteMs);
      await new Promise(setImmediate);
      if (fleet.offered.length > before) minutes.push(minute);
    }
    return minutes;
  }

  it("comes again, each time after twice as long up to an hour, until the version runs", async () => {
    const fleet = new Fleet({ assigned: { a: base }, unanswered: ["a"] });
    await fleet.born({ a: version("other") });
    assert.deepEqual(await offeredAt(fleet, 250), [2, 6, 14, 30, 62, 122, 182, 242]);
    fleet.offers.activated("car", { line: "a", versionId: base });
    assert.deepEqual(await offeredAt(fleet, 70), []);
  });
  it("does not come again once the device fetches it or is gone, also where it was just being sent", async () => {
    const ends: readonly ((offers: Offers) => void | Promise<void>)[] = [
      (offers) => {
        offers.answered("car", base);
      },
      (offers) => {
        offers.ended("car");
      },
      (offers) => {
        offers.close();
      },
      async (offers) => {
        offers.ended("car");
        await offers.offerAll("car");
      },
      async (offers) => {
        offers.close();
        await offers.offerAll("car");
      },
    ];
    for (const end of ends) {
      const fleet = new Fleet({ assigned: { a: base }, unanswered: ["a"] });
      await fleet.born({ a: version("other") });
      fleet.offers.answered("car", version("other"));
      await end(fleet.offers);
      assert.deepEqual(await offeredAt(fleet, 70), []);
    }
  });
  it("is followed by what is assigned meanwhile, which waits two minutes again", async () => {
    const assigned = { a: base };
    const fleet = new Fleet({ assigned, unanswered: ["a"] });
    await fleet.born({ a: version("third") });
    assert.deepEqual(await offeredAt(fleet, 7), [2, 6]);
    assigned.a = version("other");
    await fleet.offers.offerAll("car");
    assert.deepEqual(fleet.offered.at(-1), `a ${version("other")}`);
    assert.deepEqual(await offeredAt(fleet, 7), [2, 6]);
    assert.deepEqual(fleet.offered.filter((offer) => offer === offerOfBase).length, 3);
  });
});
