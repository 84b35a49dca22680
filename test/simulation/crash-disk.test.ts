/** The disk of the simulations loses what was not fsynced, and nothing else. */
import { equal, ok, rejects } from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { Choice } from "./choice.js";
import { CrashDisk } from "./crash-disk.js";

const seeds = Array.from({ length: 100 }, (_, seed) => seed);
const diskOf = (seed: number): CrashDisk => new CrashDisk(() => 0, new Choice(seed, "disk"));
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (disk: CrashDisk, path: string): string | undefined => {
  const found = disk.bytesOf(path);
  return found && new TextDecoder().decode(found);
};

describe("the disk of simulations", () => {
  it("keeps what was written durably", async () => {
    for (const seed of seeds) {
      const disk = diskOf(seed);
      await disk.files.makeFolder("/home");
      await disk.files.syncFolder("/");
      await writeDurably(disk.files, "/home/a", bytes("first"));
      await writeDurably(disk.files, "/home/a", bytes("second"));
      disk.crash();
      equal(textOf(disk, "/home/a"), "second", `seed ${seed}`);
    }
  });

  it("leaves the old file or the new one where a rename was not fsynced", async () => {
    const left = new Set<string | undefined>();
    for (const seed of seeds) {
      const disk = diskOf(seed);
      await writeDurably(disk.files, "/a", bytes("old"));
      const file = await disk.files.open("/a.tmp", "create");
      await file.write(bytes("new"), 0);
      await file.sync();
      await disk.files.rename("/a.tmp", "/a");
      disk.crash();
      left.add(textOf(disk, "/a"));
    }
    equal([...left].sort().join(), "new,old");
  });

  it("loses or tears bytes that were not fsynced, and names whose folder was not", async () => {
    const left = new Set<string | undefined>();
    let missing = 0;
    for (const seed of seeds) {
      const disk = diskOf(seed);
      await writeDurably(disk.files, "/a", bytes("1234"));
      const file = await disk.files.open("/a", "update");
      await file.write(bytes("5678"), 4);
      const other = await disk.files.open("/b", "create");
      await other.sync();
      disk.crash();
      left.add(textOf(disk, "/a"));
      if (textOf(disk, "/b") === undefined) missing++;
    }
    ok(left.has("1234") && left.has("12345678") && left.size > 2, [...left].join());
    ok(missing > 0 && missing < seeds.length);
  });

  it("is full, and fails the next fsync, when it is told so", async () => {
    const disk = diskOf(1);
    const file = await disk.files.open("/a", "create");
    disk.isFull = true;
    equal(await disk.files.freeBytes("/"), 0);
    await rejects(file.write(bytes("1"), 0), (error) => isStemmaError(error, "DISK_FULL"));
    disk.isFull = false;
    disk.syncsToFail = 1;
    await file.write(bytes("1"), 0);
    await rejects(file.sync(), (error) => isStemmaError(error, "FILE_FAILED"));
    await file.sync();
    equal(disk.faults, 2);
  });
});
