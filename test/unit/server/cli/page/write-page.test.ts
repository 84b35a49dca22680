/** The file of a page: what is there already stays, and a wrong name is refused before anything is asked. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { refuseWithPage, writePage } from "../../../../../server/cli/page/write-page.js";

test("a page is written once, and again only by force", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-page-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "page.HTML");
  const unasked = (): Promise<string> => assert.fail("made in vain");
  for (const name of ["page", "page.htm", ".html", "page.html.txt", "page.json"])
    await assert.rejects(writePage(join(folder, name), { force: true }, unasked), /does not end in \.html/);
  await mkdir(join(folder, "folder.html"));
  await assert.rejects(writePage(join(folder, "folder.html"), { force: true }, unasked), { code: "USAGE" });
  const { data } = await writePage(file, { force: false }, async () => "é");
  assert.deepEqual(data, { file, bytes: 2 });
  await writeFile(file, "mine");
  await assert.rejects(writePage(file, { force: false }, unasked), { code: "FILE_EXISTS" });
  await assert.rejects(
    writePage(file, { force: true }, async () => "x".repeat(32_000_001)),
    { code: "USAGE" },
  );
  assert.equal(await readFile(file, "utf8"), "mine");
  await writePage(file, { force: true }, async () => "page");
  assert.equal(await readFile(file, "utf8"), "page");
  assert.deepEqual((await readdir(folder)).sort(), ["folder.html", "page.HTML"]);
  assert.throws(() => {
    refuseWithPage({ graph: false, file: "train.py" });
  }, /--html and --file/);
});
