/** The lines of earlier consoles. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { addToHistory, maxHistory, readHistory } from "../../../../../server/cli/console/history.js";

describe("the console's history", () => {
  let folder: string;
  let path: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-history-"));
  });
  beforeEach(async () => {
    path = join(folder, "stemma", "console-history");
    await rm(path, { force: true });
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("is there again, newest first, for its owner alone", async () => {
    for (const line of ["model list", "device list", "device list", " token add secret", ""])
      assert.equal(await addToHistory(line, path), true);
    assert.deepEqual(await readHistory(path), ["device list", "model list"]);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  });

  it("ends somewhere", async () => {
    await addToHistory("first", path);
    await writeFile(path, Array.from({ length: maxHistory }, (_, at) => `line ${at}\n`).join(""));
    await addToHistory("last", path);
    const lines = (await readFile(path, "utf8")).trim().split("\n");
    assert.equal(lines.length, maxHistory);
    assert.deepEqual([lines[0], lines.at(-1)], ["line 1", "last"]);
  });

  it("is not needed", async () => {
    const impossible = join(folder, "file", "console-history");
    await writeFile(join(folder, "file"), "");
    assert.equal(await addToHistory("model list", impossible), false);
    assert.deepEqual(await readHistory(impossible), []);
  });
});
