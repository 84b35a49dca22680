/** The files of an exported folder: whatever is in it is hashed or refused with a typed error. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { exportedFiles } from "../../../../server/cli/attested-files.js";

test("a folder's files are all hashed but its attestation, and what is not a file is refused", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-exported-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const sig = join(folder, "sig.json");
  const found = async () => await exportedFiles(`${folder}/`, sig);
  const refuses = async (code: string, text: RegExp) => {
    await assert.rejects(found, (error: Error & { code?: string }) => {
      assert.equal(error.code, code);
      assert.match(error.message, text);
      return true;
    });
  };
  assert.deepEqual((await found()).files, []);
  for (const name of ["a", "sig.json"]) await writeFile(join(folder, name), "");
  const { files, isFolder } = await found();
  assert.deepEqual([isFolder, files.map(({ name }) => name)], [true, ["a"]]);
  assert.deepEqual(
    (await exportedFiles(join(folder, "a"), sig)).files.map(({ name }) => name),
    ["."],
  );
  for (const put of [mkdir, (path: string) => symlink(sig, path)]) {
    await put(join(folder, "b\u001b"));
    await refuses("FILE_NOT_REGULAR", /has b\\u\{1b\} in it, which is not a file/);
    await rm(join(folder, "b\u001b"), { recursive: true });
  }
  for (let i = 0; i < 1000; i++) await writeFile(join(folder, `f${i}`), "");
  await refuses("FILE_NOT_REGULAR", /has more than 1000 files/);
});

test(
  "a name that is not text is refused with a typed error",
  { skip: process.platform !== "linux" },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-exported-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    await writeFile(Buffer.concat([Buffer.from(`${folder}/`), Buffer.of(0xff, 0x1b)]), "");
    const found = exportedFiles(folder, join(folder, "sig.json"));
    await assert.rejects(found, { code: "FILE_MISSING", message: /^Could not read .*\\u\{1b\} \(ENOENT\)/ });
  },
);
