/** The file of the server's key. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { keyPath, loadOrMakeServerKey } from "../../../../../server/storage/repository/server-key.js";
import { nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";

test("a key is made once, and a damaged one is never replaced by a new one", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "stemma-server-key-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const files = nodeFiles();
  const random = nodeRandom();
  const path = keyPath(home);
  const made = await loadOrMakeServerKey(files, path, random);
  assert.equal((await loadOrMakeServerKey(files, path, random)).key.publicKey, made.key.publicKey);
  const text = await readFile(path, "utf8");
  for (const damaged of ["", "{", text.slice(0, -3), text.replace('"format":1', '"format":2')]) {
    await writeFile(path, damaged);
    await assert.rejects(loadOrMakeServerKey(files, path, random), { code: "KEY_INVALID" }, damaged);
    assert.equal(await readFile(path, "utf8"), damaged);
  }
});
