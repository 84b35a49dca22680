/** The ends of a journal's blocks: an opening that uses them finds the same journal, and no wrong one is believed. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { join } from "node:path";
import { encodeFrames, frameAt, segmentHeaderBytes } from "../../../../shared/journal/frame.js";
import type { FileJournal } from "../../../../shared/journal/file-journal.js";
import { logLeaf } from "../../../../shared/journal/merkle-log.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import type { Files } from "../../../../shared/ports.js";
import {
  code,
  numbersIn,
  testSigner,
  type TestFact,
} from "../../../contract/shared/journal/journal-contract.js";
import { faultyFiles } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { wholeTree } from "../../../helpers/whole-tree.js";
import { withOverrides } from "../../../helpers/with-overrides.js";

const folder = "/home/journal";
const blocksPath = join(folder, "blocks");
const headPath = join(folder, "head");
const level = 3;

const open = (files: Files, options: { readonly blockLevel?: number } = {}): Promise<FileJournal<TestFact>> =>
  openJournal<TestFact>(files, folder, {
    segmentBytes: 700,
    signer: testSigner("k"),
    blockLevel: level,
    ...options,
  });

/** A journal of facts that were appended together as these numbers say. */
async function written(appends: readonly number[]): Promise<Files> {
  const files = memoryFiles();
  const journal = await open(files);
  await appendAll(journal, appends);
  await journal.close();
  return files;
}

async function appendAll(journal: FileJournal<TestFact>, appends: readonly number[]): Promise<void> {
  for (const count of appends) {
    const { length } = journal.head();
    await journal.append(Array.from({ length: count }, (_, i) => ({ n: length + i })));
  }
}

async function overwrite(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}

/** Counts the bytes of segments that are read before the journal is open. */
async function bytesToOpen(files: Files): Promise<number> {
  let bytes = 0;
  const counting: Files = {
    ...files,
    read: async (path) => {
      const read = await files.read(path);
      if (path.endsWith(".log")) bytes += read.length;
      return read;
    },
    open: async (path, mode) => {
      const file = await files.open(path, mode);
      return withOverrides(file, {
        read: async (target, position) => {
          const count = await file.read(target, position);
          if (path.endsWith(".log")) bytes += count;
          return count;
        },
      });
    },
  };
  await (await open(counting)).close();
  return bytes;
}

/** Checks that a journal has these facts, and proves each of them as RFC 6962 defines it. */
async function requireJournal(journal: FileJournal<TestFact>, length: number): Promise<void> {
  const entries = Array.from({ length }, (_, n) => Buffer.from(JSON.stringify({ n })));
  const tree = wholeTree(entries.map((entry) => logLeaf(entry)));
  assert.equal(journal.head().length, length);
  assert.equal(journal.head().root, tree.root());
  for (let position = 0; position < length; position++) {
    assert.deepEqual(Buffer.from(await journal.readEntry(position)), entries[position]);
    assert.deepEqual(journal.proveEntry(position), tree.inclusionProof(position));
    assert.deepEqual(journal.proveStart(position), tree.consistencyProof(position));
    assert.equal(journal.rootAt(position), tree.root(position));
  }
  for (const from of [0, 1, length >> 1, length - 1, length])
    if (from >= 0)
      assert.deepEqual(
        await numbersIn(journal, from),
        Array.from({ length: length - from }, (_, i) => from + i),
      );
}

const thirty = [1, 3, 1, 1, 5, 2, 1, 1, 4, 1, 1, 3, 1, 1, 4];

describe("the blocks of a journal", () => {
  it("lead an opening to the same journal, however it was written, with a head that is older too", async () => {
    const appends = fc.array(fc.integer({ min: 1, max: 11 }), { maxLength: 9 });
    await fc.assert(
      fc.asyncProperty(appends, appends, fc.boolean(), async (first, later, hasOlderHead) => {
        const files = await written(first);
        const head = await files.read(headPath);
        const again = await open(files);
        await appendAll(again, later);
        await again.close();
        if (hasOlderHead) await overwrite(files, headPath, head);
        const length = [...first, ...later].reduce((sum, count) => sum + count, 0);
        const journal = await open(files);
        await requireJournal(journal, length);
        await appendAll(journal, [20]);
        await requireJournal(journal, length + 20);
        await journal.close();
      }),
      { numRuns: 25 },
    );
  });

  it("spare an opening the entries before them", async () => {
    const files = await written(Array.from({ length: 400 }, () => 1));
    const withBlocks = await bytesToOpen(files);
    await files.remove(blocksPath);
    const without = await bytesToOpen(files);
    assert.ok(withBlocks < 700, `${withBlocks} bytes`);
    assert.ok(without > 10_000, `${without} bytes`);
    assert.equal(await bytesToOpen(files), withBlocks, "an opening without them writes them again");
  });

  it("are not believed where the file is damaged, cut, of another journal or of blocks of another size", async () => {
    const files = await written(thirty);
    const intact = await files.read(blocksPath);
    const other = await written(Array.from({ length: 30 }, () => 1));
    const otherJournal = await openJournal<TestFact>(other, "/home/other", { blockLevel: level });
    await otherJournal.append(Array.from({ length: 30 }, (_, i) => ({ n: 100 + i })));
    await otherJournal.close();
    const replacements = [
      await other.read("/home/other/blocks"),
      new Uint8Array(),
      ...Array.from({ length: 8 }, (_, i) => intact.subarray(0, Math.floor((intact.length * i) / 8))),
      ...Array.from(intact, (byte, at) => intact.with(at, byte ^ (1 << (at % 8)))),
    ];
    for (const [i, bytes] of replacements.entries()) {
      await overwrite(files, blocksPath, bytes);
      const journal = await open(files);
      assert.equal(journal.head().length, 30, `replacement ${i}`);
      if (i < 12) await requireJournal(journal, 30);
      await journal.close();
      assert.deepEqual(await files.read(blocksPath), intact, `replacement ${i} is written again`);
    }
    const journal = await open(files, { blockLevel: level + 1 });
    await requireJournal(journal, 30);
    await journal.close();
  });

  it("do not hide that an entry before them was changed, with its checksum made again too", async () => {
    for (const isConsistent of [false, true]) {
      const files = await written(thirty);
      const [path = ""] = (await files.list(folder))
        .map((name) => join(folder, name))
        .filter((name) => name.endsWith(".log"));
      const bytes = await files.read(path);
      const { payload, following, groupFirst } = frameAt(bytes, segmentHeaderBytes)!;
      const changed = payload.with(5, "7".charCodeAt(0));
      const frame = encodeFrames([{ payload: changed, following }], groupFirst);
      if (!isConsistent) frame.set(bytes.subarray(segmentHeaderBytes + 8, segmentHeaderBytes + 12), 8);
      bytes.set(frame, segmentHeaderBytes);
      await overwrite(files, path, bytes);
      const journal = await open(files);
      const readAll = async () => {
        for await (const { fact } of journal.entries()) assert.ok(fact);
      };
      await assert.rejects(readAll, code("JOURNAL_CORRUPT"));
      await assert.rejects(() => journal.readEntry(3), code("JOURNAL_CORRUPT"));
      assert.throws(() => journal.proveEntry(3), code("JOURNAL_CORRUPT"));
      assert.throws(() => journal.rootAt(3), code("JOURNAL_CORRUPT"));
      assert.deepEqual(JSON.parse(Buffer.from(await journal.readEntry(12)).toString()), { n: 12 });
      await journal.close();
    }
  });

  it("do not hide that a segment before them is missing, or has other bytes", async () => {
    const files = await written(Array.from({ length: 60 }, () => 1));
    const names = (await files.list(folder)).filter((name) => name.endsWith(".log"));
    assert.ok(names.length > 2);
    for (const name of names.slice(0, -1)) {
      const path = join(folder, name);
      const bytes = await files.read(path);
      for (const replacement of [undefined, bytes.subarray(0, -1), Buffer.concat([bytes, Buffer.alloc(1)])]) {
        await (replacement === undefined ? files.remove(path) : overwrite(files, path, replacement));
        await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"));
        await overwrite(files, path, bytes);
      }
    }
    await (await open(files)).close();
  });

  it("are written again after a time without space for them", async () => {
    let isFull = true;
    const files = faultyFiles(memoryFiles(), ({ kind, path }) =>
      isFull && kind === "write" && path.startsWith(blocksPath) ? { code: "ENOSPC" } : undefined,
    );
    const journal = await open(files);
    await appendAll(journal, thirty);
    assert.equal(await files.stat(blocksPath), undefined);
    isFull = false;
    await appendAll(journal, [8]);
    await requireJournal(journal, 38);
    await journal.close();
    const whole = await files.read(blocksPath);
    await files.remove(blocksPath);
    await (await open(files)).close();
    assert.deepEqual(whole, await files.read(blocksPath));
  });
});
