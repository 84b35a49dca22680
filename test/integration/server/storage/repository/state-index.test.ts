/** The index of a fleet holds what its facts lead to, whatever happens to its files. */
import assert from "node:assert/strict";
import { cp } from "node:fs/promises";
import { join, resolve } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { openJournal } from "../../../../../shared/journal/open-journal.js";
import { openPackStore } from "../../../../../shared/objects/pack-store.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { Files } from "../../../../../shared/ports.js";
import { openHome, type HomePorts } from "../../../../../server/storage/repository/home.js";
import { openHomeToRead } from "../../../../../server/storage/repository/read-home.js";
import { nodeHomePorts } from "../../../../../server/storage/repository/node-home.js";
import { readHistory } from "../../../../../server/storage/repository/read-history.js";
import { factCodec } from "../../../../../server/storage/repository/state/fact-codec.js";
import { decodeRecordCache } from "../../../../../server/storage/repository/state/record-cache.js";
import {
  headOfLine,
  versionNumbered,
} from "../../../../../server/storage/repository/state/select-versions.js";
import { crashStateCount, testSeed } from "../../../../helpers/crash-states.js";
import { denseChain, modelOf } from "../../../../helpers/dense-chain.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { plainState } from "../../../../helpers/plain-state.js";
import { openRepository, temporaryFolder } from "./harness.js";
import { closedHome, work } from "./random-fleet.js";

const vectors = join(resolve(fileURLToPath(import.meta.url), "../../../../../../.."), "test/vectors");

/** All that facts and records of a fleet lead to, as plain data. @param every how often the index is written */
async function historyOf(ports: HomePorts, folder: string, every: number) {
  const { files, clock, random } = ports;
  const journal = await openJournal(files, join(folder, "journal"), { codec: factCodec });
  const objects = await openPackStore(files, join(folder, "packs"), { clock, random });
  const home = { ports: { ...ports, indexEveryFacts: every } };
  const history = await readHistory(home, { fleet: "f", folder, journal, objects });
  const { state, records, byDevice, byBase, bySuccessorOf, lastSequences, candidates, index } = history;
  const ids = [...state.versions.keys()];
  const found = {
    state: plainState(state),
    records: ids.map((id) => records.get(id)),
    byBase: ids.map((id) => [[...byBase.of(id)], [...bySuccessorOf.of(id)]]),
    byDevice: [...new Set(ids.map((id) => records.get(id)?.device ?? ""))].map((device) => [
      ...byDevice.of(device),
    ]),
    lastSequences,
    numbered: [...lastSequences.keys()].map((key) => {
      const [device = "", line = ""] = key.split("\0");
      return [1, 2, 3].map((number) => [
        versionNumbered(history, { device, line }, number)?.versionId,
        headOfLine(history, { device, line }, number)?.versionId,
        headOfLine(history, { device, line }, undefined)?.versionId,
      ]);
    }),
    candidates: [...candidates.architectures()].map((each) => [each, candidates.size, candidates.best(each)]),
    damaged: [...history.damaged.keys()],
    claims: history.claimRecords,
  };
  const { position, fileCount } = index;
  await index.close();
  await journal.close();
  await objects.close();
  return { found, position, length: state.length, fileCount };
}

/** The same, from the journal alone. */
async function folded(ports: HomePorts, folder: string) {
  await ports.files.remove(join(folder, "index"));
  return (await historyOf(ports, folder, Infinity)).found;
}

for (const every of [1, 2, 7, 30])
  test(`a golden home that is indexed every ${every} facts leads to the state of its journal`, async (context) => {
    const path = join(await temporaryFolder(context), "home");
    await cp(join(vectors, "home-1"), path, { recursive: true });
    const ports = nodeHomePorts();
    const folder = join(path, "fleets/golden");
    const first = await historyOf(ports, folder, every);
    assert.ok(first.length - first.position < Math.max(2, 2 * every), `${first.position} of ${first.length}`);
    const second = await historyOf(ports, folder, every);
    assert.equal(second.position, first.position);
    assert.deepEqual(second.found, first.found);
    assert.deepEqual(second.found, await folded(ports, folder));
  });

describe("an index that is written while facts are applied", () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const runs = Math.max(4, Math.round(crashStateCount() / 200));
  for (let run = 0; run < runs; run++)
    test(`leads to the state of the journal (seed ${seed}, ${run})`, async () => {
      const { ports, files } = await closedHome();
      const every = 1 + Math.floor(random() * 12);
      for (let opening = 0; opening < 3; opening++)
        await work({ ...ports, indexEveryFacts: every }, random, 10 + Math.floor(random() * 25));
      const folder = "/home/fleets/f";
      assert.notDeepEqual(await files.list(`${folder}/index`), []);
      const indexed = await historyOf(ports, folder, Infinity);
      assert.ok(indexed.position > 0);
      assert.deepEqual(indexed.found, await folded(ports, folder));
    });
});

async function indexedFleet(steps = 60) {
  const { ports, files } = await closedHome();
  await work({ ...ports, indexEveryFacts: 5 }, seededNumbers(7), steps);
  return { ports, files, folder: "/home/fleets/f" };
}

/** The first block of the largest file holds the oldest versions, which no opening reads that applies no facts. */
async function damageOldestVersions(files: Files, index: string): Promise<void> {
  const sizes = new Map<string, number>();
  for (const name of await files.list(index)) sizes.set(name, (await files.read(join(index, name))).length);
  const [largest] = [...sizes].toSorted(([, a], [, b]) => b - a)[0] ?? [];
  const file = await files.open(join(index, largest ?? ""), "update");
  await file.write(Buffer.alloc(40, 0xff), 60);
  await file.close();
}

async function copied(files: Files, from: string, to: string): Promise<void> {
  await files.makeFolder(to);
  for (const name of await files.list(from)) {
    const file = await files.open(join(to, name), "create");
    await file.write(await files.read(join(from, name)), 0);
    await file.close();
  }
}

describe("an index is made anew", () => {
  const cases: Readonly<Record<string, (files: Files, index: string) => Promise<void>>> = {
    "where it was deleted": (files, index) => files.remove(index),
    "where its list was deleted": (files, index) => files.remove(join(index, "list")),
    "where its rows were deleted": async (files, index) => {
      for (const name of await files.list(index)) if (name !== "list") await files.remove(join(index, name));
    },
    "where a file was cut off": async (files, index) => {
      const [name] = (await files.list(index)).filter((each) => each !== "list");
      const file = await files.open(join(index, name!), "update");
      await file.truncate((await file.size()) - 9);
      await file.close();
    },
    "where another release wrote its head": async (files, index) => {
      const file = await files.open(join(index, "list"), "update");
      const bytes = Buffer.from(await files.read(join(index, "list")));
      bytes[bytes.indexOf('"form":') + 7]! += 1;
      const { crc32 } = await import("node:zlib");
      bytes.writeUInt32LE(crc32(bytes.subarray(0, -4)), bytes.length - 4);
      await file.write(bytes, 0);
      await file.close();
    },
    "where it is another fleet's": async (files, index) => {
      const { ports } = await closedHome();
      await work({ ...ports, indexEveryFacts: 3 }, seededNumbers(8), 60);
      await files.remove(index);
      const { files: others } = ports;
      const reading: Files = {
        ...files,
        list: (path) => others.list(path),
        read: (path) => others.read(path),
      };
      await copied(reading, index, index);
    },
  };
  for (const [when, change] of Object.entries(cases))
    test(when, async () => {
      const { ports, files, folder } = await indexedFleet();
      await change(files, join(folder, "index"));
      const logged: string[] = [];
      const log = { ...noLog, warn: (event: string) => logged.push(event) };
      const again = await historyOf({ ...ports, log: log as never }, folder, 5);
      assert.ok(again.position > 0);
      assert.deepEqual(logged, /deleted$/.test(when) && !/rows/.test(when) ? [] : ["index-made-anew"]);
      assert.deepEqual(again.found, await folded(ports, folder));
    });

  test("where it is of the journal before a salvage took its last facts", async () => {
    const { ports, files, folder } = await indexedFleet();
    await copied(files, join(folder, "index"), "/newer");
    await files.remove("/home");
    await work({ ...ports, indexEveryFacts: 5 }, seededNumbers(7), 20);
    await files.remove(join(folder, "index"));
    await copied(files, "/newer", join(folder, "index"));
    const again = await historyOf(ports, folder, 5);
    assert.deepEqual(again.found, await folded(ports, folder));
  });

  test("at the next opening where a row was found damaged, and the work ends with what to do", async () => {
    const { ports, files, folder } = await indexedFleet(250);
    const index = join(folder, "index");
    await historyOf(ports, folder, 1);
    const home = await openHome("/home", ports);
    const repository = await openRepository(home, "f");
    const oldest = repository.versions({ includeRetired: true })[0]?.versionId as Hash;
    await repository.close();
    await damageOldestVersions(files, index);
    const damaged = await openRepository(home, "f");
    assert.throws(() => damaged.get(oldest), { code: "STORE_FAILED", message: /run it again/ });
    assert.equal((await damaged.failed).code, "STORE_FAILED");
    await damaged.close();
    const again = await openRepository(home, "f");
    assert.equal(again.get(oldest)?.versionId, oldest);
    await again.close();
    await home.close();
    assert.deepEqual((await historyOf(ports, folder, 5)).found, await folded(ports, folder));
  });

  test("at the next opening where a check found a row damaged that nobody had read", async () => {
    const { ports, files, folder } = await indexedFleet(250);
    await historyOf(ports, folder, 1);
    const home = await openHome("/home", ports);
    await damageOldestVersions(files, join(folder, "index"));
    const damaged = await openRepository(home, "f");
    await assert.rejects(() => damaged.check(), { code: "STORE_FAILED", message: /run it again/ });
    assert.equal((await damaged.failed).code, "STORE_FAILED");
    await damaged.close();
    const again = await openRepository(home, "f");
    assert.deepEqual((await again.check()).problems, []);
    await again.close();
    await home.close();
    assert.deepEqual((await historyOf(ports, folder, 5)).found, await folded(ports, folder));
  });

  test("in memory alone, by whoever only reads, once it was found damaged", async () => {
    const { ports, files, folder } = await indexedFleet(250);
    await historyOf(ports, folder, 1);
    const index = join(folder, "index");
    await damageOldestVersions(files, index);
    const before = await Promise.all((await files.list(index)).map((name) => files.read(join(index, name))));
    for (let time = 0; time < 2; time++) {
      const home = await openHomeToRead("/home", ports);
      const damaged = await openRepository(home, "f");
      const readAll = (): unknown =>
        damaged.versions({ includeRetired: true }).map(({ versionId }) => damaged.get(versionId));
      assert.throws(readAll, {
        code: "HOME_CHANGED",
        message: /delete the folder \/home\/fleets\/f\/index:/,
      });
      assert.equal((await damaged.failed).code, "HOME_CHANGED");
      await damaged.close();
      const repository = await openRepository(home, "f");
      for (const { versionId } of repository.versions({ includeRetired: true }))
        assert.equal(repository.get(versionId)?.versionId, versionId);
      assert.ok(repository.versions().length > 0);
      await repository.close();
    }
    const after = await Promise.all((await files.list(index)).map((name) => files.read(join(index, name))));
    assert.deepEqual(after, before);
  });

  test("in the same opening, where a row is damaged that the facts behind the index need", async () => {
    const { ports, files, folder } = await indexedFleet(250);
    await damageOldestVersions(files, join(folder, "index"));
    for (const open of [openHomeToRead, openHome]) {
      const home = await open("/home", ports);
      const repository = await openRepository(home, "f");
      const versions = repository.versions({ includeRetired: true });
      assert.ok(versions.every(({ versionId }) => repository.get(versionId)?.versionId === versionId));
      await repository.close();
      await home.close();
    }
    assert.deepEqual((await historyOf(ports, folder, 5)).found, await folded(ports, folder));
  });

  test("and the cache of records then holds none that the index has", async () => {
    const { ports, files, folder } = await indexedFleet(250);
    await files.remove(join(folder, "index"));
    await files.remove(join(folder, "records.cache"));
    const { found } = await historyOf(ports, folder, 5);
    const cached = await files.read(join(folder, "records.cache"));
    assert.ok(decodeRecordCache(cached.subarray(12)).records.size < 5, `of ${found.records.length} records`);
    assert.deepEqual((await historyOf(ports, folder, 5)).found, found);
  });

  test("never by whoever only reads: it changes nothing", async () => {
    const { ports, files, folder } = await indexedFleet();
    const before = await files.list(join(folder, "index"));
    const home = await openHomeToRead("/home", { ...ports, indexEveryFacts: 1 });
    const repository = await openRepository(home, "f");
    assert.ok(repository.versions().length > 0);
    await repository.close();
    assert.deepEqual(await files.list(join(folder, "index")), before);
    await files.remove(join(folder, "index"));
    const again = await openRepository(home, "f");
    assert.ok(again.versions().length > 0);
    await again.close();
    assert.deepEqual(await files.list(join(folder, "index")), []);
  });
});

const noLog = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

test("a full disk leaves the index as it was, and no fact is lost", async () => {
  const { ports, files, folder } = await indexedFleet();
  const before = (await historyOf(ports, folder, Infinity)).position;
  const full: Files = {
    ...files,
    open: async (path, mode) => {
      if (mode === "create" && path.includes("/index/"))
        throw Object.assign(
          new (await import("../../../../../shared/errors.js")).StemmaError("DISK_FULL", "full"),
        );
      return await files.open(path, mode);
    },
  };
  await work({ ...ports, files: full, indexEveryFacts: 2 }, seededNumbers(9), 30);
  const after = await historyOf({ ...ports, files: full }, folder, 2);
  assert.equal(after.position, before);
  assert.ok(after.length > before + 2);
  const written = await historyOf(ports, folder, 2);
  assert.ok(written.position > before);
  assert.deepEqual(written.found, after.found);
  assert.deepEqual(written.found, await folded(ports, folder));
});

test("an end with many facts leaves the next start none to apply, one with few does not write", async () => {
  const { ports } = await closedHome();
  const folder = "/home/fleets/f";
  const indexedAfter = async (facts: number) => {
    const home = await openHome("/home", { ...ports, indexEveryFacts: 100_000 });
    const repository = await openRepository(home, "f");
    await repository.append(
      ...Array.from({ length: facts }, (_, n) => ({
        type: "backup" as const,
        atMs: n,
        position: n,
        location: "/elsewhere",
      })),
    );
    await repository.close();
    await home.close();
    return await historyOf(ports, folder, Infinity);
  };
  const few = await indexedAfter(40);
  assert.ok(few.length - few.position >= 40);
  const many = await indexedAfter(600);
  assert.equal(many.position, many.length);
  assert.deepEqual(many.found, await folded(ports, folder));
});

for (const every of [1, 4, Infinity])
  test(`a nearest ancestor is found after a start, with an index every ${every} facts`, async () => {
    const { ports } = await closedHome();
    const architecture = denseChain(2);
    const open = async () => {
      const home = await openHome("/home", { ...ports, indexEveryFacts: every });
      const repository = await openRepository(home, "f");
      const close = async (): Promise<void> => {
        await repository.close();
        await home.close();
      };
      return { repository, close };
    };
    const first = await open();
    const ids: Hash[] = [];
    for (const quality of [0.5, 0.9, 0.7]) {
      const model = modelOf(architecture, 2, 0, ids.length);
      const { summary } = await first.repository.save(model, { name: "m", metadata: { quality } });
      ids.push(summary.versionId);
    }
    await first.repository.retire(ids[1]!, "old");
    await first.close();
    const second = await open();
    const found = await second.repository.nearest(architecture);
    assert.deepEqual([found.nearest?.versionId, found.indexed], [ids[2], 2]);
    assert.equal((await second.repository.nearest(architecture, ids[2])).nearest?.versionId, ids[0]);
    await second.repository.retire(ids[2]!, "old");
    await second.repository.retire(ids[0]!, "old");
    await second.close();
    const third = await open();
    assert.deepEqual(await third.repository.nearest(architecture), { nearest: undefined, indexed: 0 });
    await third.close();
  });
