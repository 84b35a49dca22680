/** Files that are only read: what would change them is refused, and what would only tidy up is left undone. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { needsToWrite, readingFiles } from "../../../../shared/files/reading-files.js";

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

async function filesWith(path: string, content: string) {
  const files = memoryFiles();
  await files.makeFolder("/home");
  const file = await files.open(path, "create");
  await file.write(Buffer.from(content), 0);
  await file.close();
  return files;
}

describe("files that are only read", () => {
  it("read, and refuse every change by an error that tells so", async () => {
    const files = await filesWith("/home/a", "content");
    const reading = readingFiles(files);
    assert.equal(text(await reading.read("/home/a")), "content");
    assert.deepEqual(await reading.list("/home"), ["a"]);
    const file = await reading.open("/home/a", "append");
    const changes: Record<string, () => Promise<unknown>> = {
      create: () => reading.open("/home/new", "create"),
      "append to what is missing": () => reading.open("/home/new", "append"),
      write: () => file.write(Buffer.from("x"), 0),
      rename: () => reading.rename("/home/a", "/home/b"),
      remove: () => reading.remove("/home/a"),
      "make a folder": () => reading.makeFolder("/home/folder"),
      link: () => reading.replaceLink("a", "/home/link"),
    };
    for (const [name, change] of Object.entries(changes))
      await assert.rejects(change(), (error) => needsToWrite(error), name);
    assert.deepEqual(await files.list("/home"), ["a"]);
    assert.equal(text(await files.read("/home/a")), "content");
  });
  it("leave undone what only tidies up or makes durable", async () => {
    const files = await filesWith("/home/a.tmp", "unfinished");
    const reading = readingFiles(files);
    await reading.remove("/home/a.tmp");
    await reading.makeFolder("/home");
    await reading.syncFolder("/home");
    const file = await reading.open("/home/a.tmp", "update");
    await file.truncate(0);
    await file.sync();
    await file.close();
    assert.equal(text(await files.read("/home/a.tmp")), "unfinished");
  });
  it("tell a refused change also where it is the cause of another error, and nothing else", async () => {
    const reading = readingFiles(memoryFiles());
    const refused = await reading.open("/new", "create").catch((error: unknown) => error);
    assert.ok(needsToWrite(new StemmaError("STORE_FAILED", "stopped", { cause: refused })));
    assert.ok(!needsToWrite(new StemmaError("FILE_FAILED", "no such file")));
    assert.ok(!needsToWrite(undefined));
  });
});
