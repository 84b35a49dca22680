/** `storage check` says that all is intact only where it read everything and found it equal to its hashes. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { exitStatus } from "../../../../shared/errors.js";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";

test("a check claims of what it read, and of no more", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-claims-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const home = join(folder, "home");
  const run = (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home });
  const { bytes, architecture } = await tinyImport("1");
  await writeFile(join(folder, "m.safetensors"), bytes);
  await writeFile(join(folder, "model.json"), architecture);
  const model = ["--name", "tiny", "--arch", join(folder, "model.json")];
  assert.equal((await run("model", "import", join(folder, "m.safetensors"), ...model)).status, 0);

  assert.match((await run("storage", "check")).stdout, /: everything is intact\n$/);
  const sampled = await run("storage", "check", "--sample", "1");
  assert.match(sampled.stdout, /: what was looked at is intact\n$/);
  assert.doesNotMatch(sampled.stdout, /everything/);

  const packs = join(home, "fleets", "local", "packs");
  const [pack = ""] = (await readdir(packs)).filter((name) => name.endsWith(".pack"));
  const packed = await readFile(join(packs, pack));
  packed[packed.length >> 1] = (packed[packed.length >> 1] as number) ^ 1;
  await writeFile(join(packs, pack), packed);
  const damaged = await run("storage", "check");
  assert.equal(damaged.status, exitStatus.verification, damaged.stdout);
  assert.doesNotMatch(damaged.stdout, /is intact/);
});
