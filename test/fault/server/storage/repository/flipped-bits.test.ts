/**
 * Flips single bits at many places in every kind of file of a home and of a backup. Afterwards either everything
 * is read exactly, or a command names the damage: opening, check, or restore. Never silence, never a wrong byte.
 */
import assert from "node:assert/strict";
import { basename, join } from "node:path";
import { test } from "node:test";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import { openHome, type HomePorts } from "../../../../../server/storage/repository/home.js";
import { salvageJournal } from "../../../../../server/storage/repository/salvage-journal.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import type { Files } from "../../../../../shared/ports.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  hasUsesOfSeed,
  sameTensors,
  tensorsOf,
  usesOfSeed,
} from "../../../../integration/server/storage/repository/harness.js";

const seed = testSeed();
/** Flipped bits per file. */
const flipsPerFile = Number(
  process.env["STEMMA_TEST_FLIPS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 200 : 5),
);

const models = new Map([
  ["a", tensorsOf("a", 2, 6)],
  ["b", fineTuned(tensorsOf("a", 2, 6), "b")],
]);

async function filesBelow(files: Files, folder: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of await files.list(folder)) {
    const path = join(folder, name);
    if ((await files.stat(path))?.kind === "folder") found.push(...(await filesBelow(files, path)));
    else found.push(path);
  }
  return found;
}

async function copyOf(files: Files): Promise<Files> {
  const copy = memoryFiles();
  for (const path of await filesBelow(files, "/")) {
    await copy.makeFolder(join(path, ".."));
    const file = await copy.open(path, "create");
    await file.write(await files.read(path), 0);
    await file.close();
  }
  return copy;
}

async function flipBit(files: Files, path: string, bit: number): Promise<void> {
  const bytes = await files.read(path);
  const file = await files.open(path, "update");
  await file.write(Uint8Array.of(bytes[bit >> 3]! ^ (1 << (bit & 7))), bit >> 3);
  await file.close();
}

/** A home with two versions, closed, and its backup. */
async function homeWithBackup(): Promise<{ readonly files: Files; readonly ports: HomePorts }> {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const [a, b] = [...models.values()];
  const { summary } = await repository.save(modelOf(a!), { name: "a" });
  await repository.save(modelOf(b!), {
    name: "b",
    bases: [summary.versionId],
    metadata: { note: "n" },
    uses: usesOfSeed("b"),
  });
  assert.deepEqual((await repository.backup("/backup")).problems, []);
  await repository.close();
  await home.close();
  return { files, ports };
}

interface Reading {
  /** Whether every version was recovered exactly. */
  readonly isExact: boolean;
  /** What the commands named. */
  readonly named: readonly string[];
}

/** Opens the home, checks it and recovers everything. A damaged home, key or journal refuses to open. */
async function read(files: Files, ports: HomePorts, path = "/home"): Promise<Reading> {
  try {
    const home = await openHome(path, { ...ports, files });
    const repository = await openRepository(home, "fleet-a");
    try {
      const known = repository.knownDamage();
      const listed = (await repository.list({})).versions.map(({ name }) => name);
      const { problems } = await repository.check();
      let isExact = listed.length === models.size;
      for (const [name, tensors] of models)
        if (listed.includes(name))
          try {
            const version = repository.resolve(name);
            assert.ok(await sameTensors(repository, version.versionId, tensors), `${name} came back altered`);
            if (name === "b") assert.ok(await hasUsesOfSeed(repository, version.versionId, name));
          } catch (error) {
            if (!isStemmaError(error)) throw error;
            isExact = false;
          }
      const named = [
        ...problems.map(({ what, id }) => `${what} ${id}`),
        ...known.packs.map(({ pack }) => `pack ${pack}`),
        ...known.versions.map(({ name }) => `version ${name}`),
      ];
      return { isExact, named };
    } finally {
      await repository.close();
    }
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return { isExact: false, named: [error.code] };
  }
}

/** Draws bits of a file, among them the first and last bytes. */
function bitsOf(byteLength: number, draw: () => number): readonly number[] {
  const bits = new Set([0, 8 * byteLength - 1]);
  for (let flips = 0; flips < flipsPerFile; flips++) bits.add(Math.floor(draw() * 8 * byteLength));
  return [...bits];
}

test(`a flipped bit anywhere in a home is read around or named (STEMMA_TEST_SEED=${seed})`, async (context) => {
  const { files, ports } = await homeWithBackup();
  const draw = seededNumbers(seed);
  let exact = 0;
  let named = 0;
  for (const path of await filesBelow(files, "/home"))
    for (const bit of bitsOf((await files.read(path)).length, draw))
      for (const hasCache of [true, false]) {
        const where = `bit ${bit} of ${path}, ${hasCache ? "with" : "without"} the index cache (STEMMA_TEST_SEED=${seed})`;
        const copy = await copyOf(files);
        await flipBit(copy, path, bit);
        if (!hasCache) await copy.remove("/home/fleets/fleet-a/packs/index");
        const reading = await read(copy, ports);
        assert.ok(reading.isExact || reading.named.length > 0, `${where}: silence`);
        if (reading.isExact) exact++;
        else named++;
        // Header (without its padding), index and trailer of a pack: check names them, nothing is lost.
        if (path.endsWith(".pack"))
          assert.ok(reading.named.length > 0 || bit >> 3 < 32, `${where}: not named`);
        if (path.endsWith(".log") && !reading.isExact) {
          const home = await openHome("/home", { ...ports, files: copy });
          const report = await salvageJournal(home, "fleet-a");
          assert.deepEqual([report.gaps, report.agreesWithHead], [0, true], where);
          assert.ok((await read(copy, ports)).isExact, `${where}: salvaged`);
        }
      }
  context.diagnostic(`${exact} times all was read, ${named} times the damage was named`);
});

test(`a flipped bit anywhere in a backup is read around or named (STEMMA_TEST_SEED=${seed})`, async (context) => {
  const { files, ports } = await homeWithBackup();
  const draw = seededNumbers(seed + 1);
  let exact = 0;
  let named = 0;
  for (const path of await filesBelow(files, "/backup"))
    for (const bit of bitsOf((await files.read(path)).length, draw)) {
      const where = `bit ${bit} of ${path} (STEMMA_TEST_SEED=${seed})`;
      const copy = await copyOf(files);
      await flipBit(copy, path, bit);
      const problems: string[] = [];
      const isDryRunNaming = await names(
        restoreBackup("/backup", "/new", { ...ports, files: copy }, { dryRun: true }),
      );
      try {
        const [fleet] = await restoreBackup("/backup", "/new", { ...ports, files: copy });
        problems.push(...fleet!.problems.map(({ what }) => what));
      } catch (error) {
        assert.ok(isStemmaError(error), where);
        problems.push(error.code);
      }
      assert.equal(isDryRunNaming, problems.length > 0, `${where}: the dry run and the restore differ`);
      const reading = await read(copy, ports, "/new");
      assert.ok(reading.isExact || problems.length > 0, `${where}: silence`);
      if (reading.isExact) exact++;
      else named++;
      if (basename(path).endsWith(".pack")) assert.ok(problems.length > 0, `${where}: not named`);
    }
  context.diagnostic(`${exact} times all was restored, ${named} times the damage was named`);
});

/** Whether a restore names damage, by its report or by an error. */
async function names(restore: ReturnType<typeof restoreBackup>): Promise<boolean> {
  try {
    return (await restore).some(({ problems }) => problems.length > 0);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return true;
  }
}
