/** The folders of trainings on the server: a training that was cut short is continued by the same request. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, it } from "node:test";
import type { Home } from "../../../../../server/storage/repository/home.js";
import {
  openTraining,
  type TrainingIdentity,
} from "../../../../../server/learning/training/kept-trainings.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

const identity: TrainingIdentity = {
  fleet: "f",
  name: "soh",
  recipe: "battery-soh",
  parameters: { epochs: 3 },
  dataset: { reader: "battery-simulated", parameters: {} },
  base: null,
  seed: null,
  invocation: 0,
};
const clock = manualClock(Date.now());
let path: string;
let home: Home;
before(async () => {
  path = await mkdtemp(join(tmpdir(), "stemma-kept-"));
  home = { path, ports: { clock, random: seededRandom(1) } } as unknown as Home;
});
after(() => rm(path, { recursive: true, force: true }));
const kept = (): Promise<string[]> => readdir(join(path, "run", "trainings"));

it("keeps folder and drawn seed of a training that was cut short for the same request only", async () => {
  const first = await openTraining(home, identity);
  await writeFile(join(first.folder, "mark"), "");
  await first.release(true);
  const again = await openTraining(home, identity);
  assert.deepEqual([again.folder, again.seed, again.canContinue], [first.folder, first.seed, true]);
  assert.ok((await readdir(again.folder)).includes("mark"));
  for (const change of [{ invocation: 1 }, { name: "other" }, { seed: "7" }, { parameters: { epochs: 4 } }]) {
    const other = await openTraining(home, { ...identity, ...change });
    assert.notEqual(other.folder, first.folder);
    assert.equal(other.seed === first.seed, false);
    await other.release(false);
  }
  await again.release(false);
  assert.deepEqual(await kept(), [], "what ended leaves nothing");
  const fresh = await openTraining(home, identity);
  assert.notEqual(fresh.seed, first.seed);
  await fresh.release(false);
});

it("does not let two equal trainings write one folder", async () => {
  const first = await openTraining(home, identity);
  const second = await openTraining(home, identity);
  assert.notEqual(second.folder, first.folder);
  assert.equal(second.canContinue, false);
  await second.release(true);
  await assert.rejects(readdir(second.folder), { code: "ENOENT" });
  await first.release(false);
});

it("removes after a week what nobody came back to, and begins with a folder whose seed is damaged", async () => {
  const first = await openTraining(home, identity);
  await first.release(true);
  const days = (count: number): Date => new Date(clock.now() - count * 24 * 3_600_000);
  await utimes(first.folder, days(6), days(6));
  await (await openTraining(home, { ...identity, name: "other" })).release(false);
  assert.equal((await kept()).length, 1);
  await utimes(first.folder, days(8), days(8));
  await (await openTraining(home, { ...identity, name: "other" })).release(false);
  assert.deepEqual(await kept(), []);
  await mkdir(join(first.folder, "state"), { recursive: true });
  await writeFile(join(first.folder, "seed"), "");
  const fresh = await openTraining(home, identity);
  assert.deepEqual(await readdir(fresh.folder), ["seed"]);
  await fresh.release(false);
});
