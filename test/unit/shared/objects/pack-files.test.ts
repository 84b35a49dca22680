import assert from "node:assert/strict";
import { test } from "node:test";
import type { PackIndex } from "../../../../shared/objects/pack-format.js";
import { PackFiles } from "../../../../shared/objects/pack-files.js";
import type { Files, OpenFile } from "../../../../shared/ports.js";

/** Files of a folder without a disk. Each refuses reads once it is closed. */
function filesWithoutDisk() {
  let open = 0;
  const file = (): OpenFile => {
    let isClosed = false;
    open++;
    const unused = () => Promise.reject(new Error("Nothing of packs that are read calls this."));
    return {
      read: async (bytes) => {
        await Promise.resolve();
        if (isClosed) throw new Error("The file is closed.");
        return bytes.length;
      },
      close: () => {
        if (!isClosed) open--;
        isClosed = true;
        return Promise.resolve();
      },
      size: unused,
      write: unused,
      sync: unused,
      truncate: unused,
    };
  };
  return {
    files: { open: () => Promise.resolve(file()) } as unknown as Files,
    openFiles: () => open,
  };
}

const packCount = 80;
const packNamed = (number: number) => ({ name: `pack-${number}`, bytes: 1024 }) as PackIndex;
const read = (packs: PackFiles, number: number) => packs.use(packNamed(number), (from) => from.range(0, 16));

test("A pack that one reader takes while others close idle ones stays open until it is given back", async () => {
  const { files, openFiles } = filesWithoutDisk();
  const packs = new PackFiles(files, "packs");
  const reader = async (first: number): Promise<void> => {
    for (let round = 0; round < 200; round++) {
      await read(packs, (first * 7 + round * 3) % packCount);
      // Readers are out of step by one to five turns of the queue.
      for (let turn = 0; turn < first % 5; turn++) await Promise.resolve();
    }
  };
  await Promise.all(Array.from({ length: 40 }, (_, first) => reader(first)));
  await packs.close();
  assert.equal(openFiles(), 0);
});

test("A pack that is retired while it is read is closed when the last reader has it given back", async () => {
  const { files, openFiles } = filesWithoutDisk();
  const packs = new PackFiles(files, "packs");
  const both = [read(packs, 1), read(packs, 1)];
  await packs.retire("pack-1");
  await Promise.all(both);
  await new Promise(setImmediate);
  assert.equal(openFiles(), 0);
  await read(packs, 1);
  assert.equal(openFiles(), 1);
  await packs.close();
  assert.equal(openFiles(), 0);
});

test("A pack that could not be opened is opened again by who reads it next", async () => {
  const { files, openFiles } = filesWithoutDisk();
  let isThere = false;
  const some = {
    open: (...args: Parameters<Files["open"]>) =>
      isThere ? files.open(...args) : Promise.reject(new Error("There is no such file.")),
  } as unknown as Files;
  const packs = new PackFiles(some, "packs");
  const failed = await Promise.allSettled([read(packs, 1), read(packs, 1)]);
  assert.deepEqual(
    failed.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  isThere = true;
  assert.equal((await read(packs, 1)).length, 16);
  await packs.close();
  assert.equal(openFiles(), 0);
});
