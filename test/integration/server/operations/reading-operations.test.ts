/** Commands that only read need no lock: beside a writer, on a home that must not change, and while it changes. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { appendFile, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import { openReadingOperations } from "../../../../server/operations/reading-operations.js";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { openHome, type Home } from "../../../../server/storage/repository/home.js";
import { nodeHomePorts, openNodeHome } from "../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../server/storage/repository/open-repository.js";
import { denseChain, modelOf as denseModel } from "../../../helpers/dense-chain.js";
import { fineTuned, modelOf, temporaryFolder, tensorsOf } from "../storage/repository/harness.js";

const fleet = "cars";

interface Written {
  readonly path: string;
  readonly home: Home;
  readonly repository: Awaited<ReturnType<typeof openRepository>>;
}

/** A home with two versions of a model, which this process has locked. */
async function writtenHome(context: TestContext): Promise<Written> {
  const path = join(await temporaryFolder(context), "home");
  const home = await openNodeHome(path);
  const repository = await openRepository(home, fleet);
  context.after(async () => {
    await repository.close();
    await home.close();
  });
  const tensors = tensorsOf("model", 4);
  const { summary } = await repository.save(modelOf(tensors), { name: "m" });
  await repository.save(modelOf(fineTuned(tensors, "again")), { name: "m", bases: [summary.versionId] });
  return { path, home, repository };
}

/** Reads a home; what needs the lock fails with HOME_LOCKED, as its test has it. */
async function reader(
  context: TestContext,
  path: string,
): Promise<{ readonly operations: ServerOperations; readonly beside: string[] }> {
  const beside: string[] = [];
  const operations = await openReadingOperations({
    home: path,
    openToWrite: () => openLocalOperations({ home: path }),
    onBeside: (holder) => beside.push(holder),
  });
  context.after(() => operations.close());
  return { operations, beside };
}

async function recovered(operations: ServerOperations, model: string): Promise<string> {
  const stream = await operations.recover({ fleet, model });
  const hash = createHash("sha256");
  for await (const chunk of stream.chunks) hash.update(chunk);
  await stream.report;
  return hash.digest("hex");
}

/** Paths, times and bytes of everything in a folder. */
async function contentsOf(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const lines = entries.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    const { mtimeMs, ino } = await stat(path);
    const bytes = entry.isFile() ? (await readFile(path)).toString("base64") : "";
    return `${path} ${ino} ${mtimeMs} ${bytes}`;
  });
  return (await Promise.all(lines)).sort();
}

/** Damages the first block of the largest file of the index, which holds the oldest versions: no opening reads it. */
async function damageOldestVersions(index: string): Promise<void> {
  const sizes = new Map<string, number>();
  for (const name of await readdir(index)) sizes.set(name, (await stat(join(index, name))).size);
  const [largest] = [...sizes].toSorted(([, a], [, b]) => b - a)[0] ?? [];
  const file = await open(join(index, largest ?? ""), "r+");
  await file.write(Buffer.alloc(40, 0xff), 0, 40, 60);
  await file.close();
}

describe("reading a home without its lock", () => {
  it("reads again without the index where that is found damaged, and leaves it as it is", async (context) => {
    const path = join(await temporaryFolder(context), "home");
    const home = await openHome(path, { ...nodeHomePorts(), indexEveryFacts: 5 });
    const repository = await openRepository(home, fleet);
    const model = modelOf(tensorsOf("model", 1));
    const first = await repository.save(model, { name: "m0" });
    for (let n = 1; n < 250; n++) await repository.save(model, { name: `m${n}` });
    await repository.close();
    await home.close();
    await damageOldestVersions(join(path, "fleets", fleet, "index"));
    const before = await contentsOf(path);
    const { operations } = await reader(context, path);
    assert.equal((await operations.log({ fleet, model: "m0" }))[0]?.versionId, first.summary.versionId);
    assert.equal((await operations.listModels({ fleet, limit: 250 })).versions.length, 250);
    assert.match(await recovered(operations, "m0"), /^[0-9a-f]{64}$/);
    assert.deepEqual(await contentsOf(path), before);
  });

  it("answers beside the process that has it, says which, and changes nothing", async (context) => {
    const { path, repository } = await writtenHome(context);
    const before = await contentsOf(path);
    const { operations, beside } = await reader(context, path);
    assert.equal((await operations.listModels({ fleet })).versions.length, 2);
    assert.equal((await operations.model({ fleet, model: "m:2" })).version, 2);
    assert.equal((await operations.log({ fleet, model: "m" })).length, 2);
    assert.ok((await operations.diff({ fleet, a: "m:1", b: "m:2" })).changes.length > 0);
    assert.equal((await operations.runQuery({ fleet, query: 'select v where v.name = "m"' })).rows.length, 2);
    assert.deepEqual((await operations.check({ fleet })).problems, []);
    assert.equal((await operations.stats({ fleet })).versions, 2);
    assert.equal((await recovered(operations, "m:2")).length, 64);
    assert.equal((await operations.journalHead({ fleet })).head.length, repository.journal.head().length);
    await operations.close();
    assert.deepEqual(await contentsOf(path), before);
    assert.equal(beside.length, 1);
    assert.match(beside[0]!, new RegExp(`^process ${process.pid} .* on this machine`));
  });

  it("looks for a nearest ancestor, and writes no cache for the next time", async (context) => {
    const { path, repository } = await writtenHome(context);
    for (const name of ["a", "b"])
      await repository.save(denseModel(denseChain(2), 2, 0, name.charCodeAt(0)), { name });
    const before = await contentsOf(path);
    const { operations } = await reader(context, path);
    const { nearest, indexed } = await operations.nearest({ fleet, model: "b" });
    assert.deepEqual([nearest?.name, indexed], ["a", 1]);
    await operations.close();
    assert.deepEqual(await contentsOf(path), before);
  });

  it("asks for the lock only where something is written, or beside a server that knows more", async (context) => {
    const { path, repository, home } = await writtenHome(context);
    const { operations, beside } = await reader(context, path);
    await assert.rejects(operations.tag({ fleet, tag: "good", model: "m:1" }), {
      code: "HOME_LOCKED",
    });
    // Only a running server knows who is connected, and this process may be one.
    await assert.rejects(operations.devices({ fleet }), { code: "HOME_LOCKED" });
    await repository.close();
    await home.close();
    const { operations: later } = await reader(context, path);
    assert.deepEqual(await later.devices({ fleet }), []);
    await later.tag({ fleet, tag: "good", model: "m:1" });
    assert.equal((await later.model({ fleet, model: "m:good" })).version, 1);
    await later.close();
    assert.equal(beside.length, 0);
  });

  it("takes an entry that is being appended for one that is not there yet", async (context) => {
    const { path } = await writtenHome(context);
    const journal = join(path, "fleets", fleet, "journal");
    const [segment] = (await readdir(journal)).filter((name) => name.endsWith(".log"));
    const { operations } = await reader(context, path);
    const { length } = (await operations.journalHead({ fleet })).head;
    await operations.close();
    await appendFile(join(journal, segment!), Buffer.from("STEM unfinished"));
    const before = await contentsOf(path);
    const { operations: again } = await reader(context, path);
    assert.equal((await again.journalHead({ fleet })).head.length, length);
    await again.close();
    assert.deepEqual(await contentsOf(path), before);
  });

  it("reads again what the writer has merged or collected meanwhile", async (context) => {
    const { path, repository } = await writtenHome(context);
    const { operations } = await reader(context, path);
    assert.equal((await operations.listModels({ fleet })).versions.length, 2);
    const expected = await recovered(operations, "m:2");
    await repository.retire(repository.resolve("m:1").versionId, "old");
    for (let other = 0; other < 16; other++)
      await repository.save(modelOf(tensorsOf(`other ${other}`, 1)), { name: "other" });
    assert.ok(((await repository.mergePacks())?.packs ?? 0) > 2, "the first packs were merged");
    const { operations: fresh } = await reader(context, path);
    assert.equal(await recovered(fresh, "m:2"), expected);
    assert.deepEqual((await operations.check({ fleet })).problems, []);
    assert.equal(await recovered(operations, "m:2"), expected);
    assert.equal((await operations.model({ fleet, model: "m:1" })).state, "retired");
  });

  it("still says what is damaged where nothing has changed", async (context) => {
    const { path } = await writtenHome(context);
    const packs = join(path, "fleets", fleet, "packs");
    const [pack] = (await readdir(packs)).filter((name) => name.endsWith(".pack"));
    await rm(join(packs, pack!));
    const { operations } = await reader(context, path);
    const { versions } = await operations.knownDamage({ fleet });
    const { problems } = await operations.check({ fleet });
    assert.ok(versions.length + problems.length > 0);
    await assert.rejects(recovered(operations, "m:2"), (error) => isStemmaError(error));
  });

  it("gives two readers right answers while a writer saves, retires, merges and collects", async (context) => {
    const { path, repository } = await writtenHome(context);
    let isWriting = true;
    const kept = repository.resolve("m:1").versionId;
    const { operations: first } = await reader(context, path);
    const expected = await recovered(first, kept);
    const write = async (): Promise<void> => {
      let tensors = tensorsOf("others", 3);
      for (let step = 0; step < 40; step++) {
        tensors = fineTuned(tensors, `step ${step}`);
        const { summary } = await repository.save(modelOf(tensors), { name: "other" });
        await repository.retire(summary.versionId, "old");
        await repository.mergePacks();
        await repository.collect(await repository.planCollection());
      }
      isWriting = false;
    };
    let answers = 0;
    const readOnce = async (): Promise<void> => {
      const { operations } = await reader(context, path);
      try {
        assert.equal((await operations.listModels({ fleet, name: "m" })).versions.length, 2);
        assert.deepEqual((await operations.check({ fleet })).problems, []);
        assert.equal(await recovered(operations, kept), expected);
        answers++;
      } catch (error) {
        // A stream that the writer took something from, or a home that changed in each reading, and has a writer.
        if (!isStemmaError(error, "HOME_CHANGED") && !isStemmaError(error, "HOME_LOCKED")) throw error;
      } finally {
        await operations.close();
      }
    };
    const read = async (): Promise<void> => {
      while (isWriting) await readOnce();
      await readOnce();
    };
    await Promise.all([write(), read(), read()]);
    assert.ok(answers >= 2);
  });
});
