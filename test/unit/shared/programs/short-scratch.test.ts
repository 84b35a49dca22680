/** The short path of a program's temporary files: a link of this user's own, and of no other job. */
import assert from "node:assert/strict";
import { lstat, mkdir, mkdtemp, readFile, readlink, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { shortScratch } from "../../../../shared/programs/short-scratch.js";

test("a short path to a long folder", { skip: process.platform !== "linux" }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-scratch-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const scratch = join(folder, "s".repeat(80));
  await mkdir(scratch);
  // Another process may run a job whose folder is not seen from here, as in a container that shares /tmp.
  const elsewhere = join("/tmp", "stemma-0123456789abcdef");
  await symlink(join(folder, "absent"), elsewhere);
  t.after(() => unlink(elsewhere));
  const short = await shortScratch(scratch);
  const { path } = short;
  assert.ok((await lstat(elsewhere)).isSymbolicLink());
  assert.ok(path.length < 40 && dirname(path) === "/tmp");
  await writeFile(join(path, "a"), "text");
  assert.equal(await readFile(join(scratch, "a"), "utf8"), "text");
  // The job's next try, after a kill.
  assert.equal((await shortScratch(scratch)).path, path);
  await short.remove();
  await short.remove();
  await assert.rejects(lstat(path), { code: "ENOENT" });
  await symlink(folder, path);
  t.after(() => unlink(path));
  const beside = await shortScratch(scratch);
  await beside.remove();
  assert.deepEqual([beside.path, await readlink(path)], [scratch, folder]);
  assert.equal((await shortScratch(folder)).path, folder);
});
