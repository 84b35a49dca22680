/** What builds of the recorder leave in the cache where they are killed goes with a later build. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { buildRecorder } from "../../../../../shared/determinism/recorder/build-recorder.js";

const canBuild = process.platform === "linux" && spawnSync("cc", ["--version"]).status === 0;

test("a build removes what killed ones left, and not what runs now", { skip: !canBuild }, async (t) => {
  const cache = await mkdtemp(join(tmpdir(), "stemma-recorder-"));
  const locked = join(cache, "new-locked");
  t.after(async () => {
    await chmod(locked, 0o700).catch(() => undefined);
    await rm(cache, { recursive: true, force: true });
  });
  for (const name of ["new-killed", "new-running"]) await mkdir(join(cache, name));
  await utimes(join(cache, "new-killed"), 0, 0);
  // A leftover that may not be removed, such as another user's, does not keep the recorder from being built.
  await mkdir(locked);
  await writeFile(join(locked, "recorder.so"), "");
  await chmod(locked, 0o500);
  await utimes(locked, 0, 0);
  const { library } = await buildRecorder(new AbortController().signal, cache);
  assert.deepEqual(
    (await readdir(cache)).sort().filter((name) => !library.startsWith(join(cache, name))),
    process.getuid?.() === 0 ? ["new-running"] : ["new-locked", "new-running"],
  );
});
