/** The file port: disk and memory implementations behave alike, also in what they refuse. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../../../shared/files/make-folder.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { recordingFiles } from "../../../helpers/files/recording-files.js";
import { sharedSync } from "../../../../shared/files/shared-sync.js";
import type { Files } from "../../../../shared/ports.js";

const root = await mkdtemp(join(tmpdir(), "stemma-files-"));
after(() => rm(root, { recursive: true, force: true }));
const code =
  (expected: ErrorCode) =>
  (error: unknown): boolean =>
    error instanceof StemmaError && error.code === expected && error.cause !== undefined;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function write(files: Files, path: string, text: string): Promise<void> {
  const file = await files.open(path, "append");
  await file.write(bytes(text), 0);
  await file.close();
}

function suite(name: string, open: () => Promise<{ files: Files; folder: string }>): void {
  describe(`file port: ${name}`, () => {
    it("reads and writes at positions; gaps are zeros", async () => {
      const { files, folder } = await open();
      const file = await files.open(join(folder, "a"), "create");
      await file.write(bytes("world"), 6);
      await file.write(bytes("hello"), 0);
      assert.equal(await file.size(), 11);
      const target = new Uint8Array(20);
      assert.equal(await file.read(target, 0), 11);
      assert.deepEqual(target.subarray(0, 11), bytes("hello\0world"));
      assert.equal(await file.read(target, 11), 0);
      await file.truncate(3);
      await file.truncate(5);
      await file.sync();
      await file.close();
      assert.deepEqual(await files.read(join(folder, "a")), bytes("hel\0\0"));
      await assert.rejects(() => files.open(join(folder, "a"), "create"), code("FILE_FAILED"));
      await assert.rejects(() => files.open(join(folder, "b"), "read"), code("FILE_MISSING"));
      await assert.rejects(() => files.open(join(folder, "b"), "update"), code("FILE_MISSING"));
      await assert.rejects(() => files.open(join(folder, "none", "b"), "append"), code("FILE_MISSING"));
    });
    it("appends to what is there, at the positions it is given", async () => {
      const { files, folder } = await open();
      for (const text of ["12345", "ab"]) await write(files, join(folder, "log"), text);
      assert.deepEqual(await files.read(join(folder, "log")), bytes("ab345"));
    });
    it("lists, renames, replaces, removes", async () => {
      const { files, folder } = await open();
      assert.deepEqual(await files.list(join(folder, "none")), []);
      await files.makeFolder(join(folder, "x", "y"));
      await files.makeFolder(join(folder, "x", "y"));
      for (const name of ["b", "a", "é"]) await write(files, join(folder, "x", name), name);
      assert.deepEqual(await files.list(join(folder, "x")), ["a", "b", "y", "é"]);
      await files.rename(join(folder, "x", "a"), join(folder, "x", "b"));
      assert.deepEqual(await files.read(join(folder, "x", "b")), bytes("a"));
      await files.rename(join(folder, "x"), join(folder, "z"));
      assert.deepEqual(await files.list(join(folder, "z")), ["b", "y", "é"]);
      await assert.rejects(
        () => files.rename(join(folder, "none"), join(folder, "other")),
        code("FILE_MISSING"),
      );
      await assert.rejects(
        () => files.rename(join(folder, "z", "y"), join(folder, "z", "b")),
        (error) => error instanceof StemmaError,
      );
      assert.equal((await files.stat(join(folder, "z")))?.kind, "folder");
      assert.equal(await files.stat(join(folder, "x")), undefined);
      assert.equal(await files.stat(join(folder, "z", "b", "below a file")), undefined);
      await files.syncFolder(join(folder, "z"));
      await files.remove(join(folder, "z"));
      await files.remove(join(folder, "z"));
      assert.deepEqual(await files.list(folder), []);
      await assert.rejects(() => files.syncFolder(join(folder, "z")), code("FILE_MISSING"));
    });
    it("lets an open file be read after it was replaced or removed", async () => {
      const { files, folder } = await open();
      await write(files, join(folder, "old"), "old");
      const file = await files.open(join(folder, "old"), "read");
      await write(files, join(folder, "new"), "new");
      await files.rename(join(folder, "new"), join(folder, "old"));
      await files.remove(join(folder, "old"));
      const target = new Uint8Array(3);
      assert.equal(await file.read(target, 0), 3);
      assert.deepEqual(target, bytes("old"));
      await assert.rejects(() => file.write(bytes("x"), 0), code("FILE_FAILED"));
      await file.close();
      await assert.rejects(() => file.read(target, 0), code("FILE_FAILED"));
    });
    it("replaces links atomically, and follows them", async () => {
      const { files, folder } = await open();
      for (const version of ["1", "2"]) {
        await files.makeFolder(join(folder, "versions", version));
        await write(files, join(folder, "versions", version, "model"), version);
      }
      const link = join(folder, "current");
      for (const version of ["1", "2"]) {
        await files.replaceLink(`versions/${version}`, link);
        assert.equal(await files.readLink(link), `versions/${version}`);
        assert.deepEqual(await files.read(join(link, "model")), bytes(version));
        assert.deepEqual(await files.list(link), ["model"]);
      }
      assert.equal((await files.stat(link))?.kind, "link");
      assert.equal(await files.readLink(join(folder, "versions")), undefined);
      assert.equal(await files.readLink(join(folder, "none")), undefined);
      assert.ok((await files.freeBytes(folder)) > 0);
      await files.remove(link);
      assert.deepEqual(await files.list(folder), ["versions"]);
    });
    it("replaces an existing file durably", async () => {
      const { files, folder } = await open();
      await makeFolderDurably(files, join(folder, "a", "b", "c"));
      for (const text of ["one", "two"])
        await writeDurably(files, join(folder, "a", "b", "c", "f"), bytes(text));
      assert.deepEqual(await files.read(join(folder, "a", "b", "c", "f")), bytes("two"));
      assert.deepEqual(await files.list(join(folder, "a", "b", "c")), ["f"]);
    });
  });
}

let folders = 0;
suite("node", async () => {
  const folder = join(root, String(folders++));
  await nodeFiles().makeFolder(folder);
  return { files: nodeFiles(), folder };
});
suite("memory", async () => {
  const files = memoryFiles();
  await files.makeFolder("/m");
  return { files, folder: "/m" };
});
suite("recording", async () => {
  const files = recordingFiles(memoryFiles());
  await files.makeFolder("/m");
  return { files, folder: "/m" };
});

it("shares an fsync among waiting callers, and never one that began before the call", async () => {
  const ends: (() => void)[] = [];
  const sync = sharedSync(
    () =>
      new Promise((resolve) => {
        ends.push(resolve);
      }),
  );
  const done: string[] = [];
  const call = (name: string): void => {
    void sync().then(() => {
      done.push(name);
    });
  };
  call("a");
  call("b");
  call("c");
  assert.equal(ends.length, 1);
  ends[0]?.();
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  assert.deepEqual(done, ["a"]);
  assert.equal(ends.length, 2);
  call("d");
  ends[1]?.();
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  assert.deepEqual(done, ["a", "b", "c"]);
  ends[2]?.();
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  assert.deepEqual(done, ["a", "b", "c", "d"]);
});
