/** What Tab completes in the console. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { buildProgram } from "../../../../../server/cli/build-program.js";
import { completeLine } from "../../../../../server/cli/console/complete-line.js";
import type { FleetNames } from "../../../../../server/cli/console/fleet-names.js";

const fleet: FleetNames = (kind) =>
  Promise.resolve(
    { devices: ["van-1", "van-12"], models: ["pack-soh", "two words"], rollouts: ["summer"] }[kind],
  );
const complete = (line: string): Promise<unknown> => completeLine(line, { names: fleet, buildProgram });

test("commands, options, their values and the console's own words", async () => {
  assert.deepEqual(await complete("jou"), [["journal "], "jou"]);
  assert.deepEqual(await complete("stemma jou"), [["journal "], "jou"]);
  assert.deepEqual(await complete("qui"), [["quit "], "qui"]);
  assert.deepEqual(await complete("model reco"), [["recover "], "reco"]);
  assert.deepEqual(await complete("help mod"), [["model "], "mod"]);
  assert.deepEqual(await complete("agent sta"), [["status "], "sta"]);
  assert.deepEqual(await complete("device list --sel"), [["--select "], "--sel"]);
});

test("words of a query inside of its quotes", async () => {
  assert.deepEqual(await complete("query 'sel"), [["'select "], "'sel"]);
  assert.deepEqual(await complete("stemma query --explain 'select m where m.nu"), [["m.number "], "m.nu"]);
  assert.deepEqual(await complete("query 'select m "), [["from", "where"], ""]);
  assert.deepEqual(await complete('query save best "eva'), [['"evaluate '], '"eva']);
  assert.deepEqual(await complete(`query 'select m where m.name like "se`), [[], '"se']);
  assert.deepEqual(await complete("query 'select m' sel"), [[], "sel"], "after them");
});

test("names of devices, models and rollouts", async () => {
  assert.deepEqual(await complete("device show van-"), [["van-1", "van-12"], "van-"]);
  assert.deepEqual(await complete("model list --device van-12"), [["van-12 "], "van-12"]);
  assert.deepEqual(await complete("model show two"), [[], "two"]);
  assert.deepEqual(await complete("model diff pack-soh:1 pack"), [["pack-soh "], "pack"]);
  assert.deepEqual(await complete("rollout pause s"), [["summer "], "s"]);
  // A new rollout has no name yet.
  assert.deepEqual(await complete("rollout create s"), [[], "s"]);
});

test("files, and none of it in a word with quotes", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-console-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "pictures"));
  await writeFile(join(folder, "packs.csv"), "");
  const typed = `${folder}/p`;
  assert.deepEqual(await complete(`model import ${typed}`), [
    [`${folder}/packs.csv`, `${folder}/pictures/`],
    typed,
  ]);
  assert.deepEqual(await complete(`model import ${folder}/pi`), [[`${folder}/pictures/`], `${folder}/pi`]);
  assert.deepEqual(await complete(`model import '${folder}/p`), [[], `'${folder}/p`]);
  assert.deepEqual(await complete(`model 'impo x`), [[], "x"]);
});
