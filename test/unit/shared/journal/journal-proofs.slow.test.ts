/** Proofs of a journal on files: right after appends and after reopening, and at a cost that stays the same. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import type { FileJournal } from "../../../../shared/journal/file-journal.js";
import { logLeaf, verifyConsistency, verifyInclusion } from "../../../../shared/journal/merkle-log.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import type { Files } from "../../../../shared/ports.js";
import { withOverrides } from "../../../helpers/with-overrides.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

interface Numbered {
  readonly n: number;
}
const isInvalid = (error: unknown): boolean => isStemmaError(error, "FACT_INVALID");
const folder = "/journal";
const open = (files: Files): Promise<FileJournal<Numbered>> =>
  openJournal<Numbered>(files, folder, { segmentBytes: 2000 });

async function requireProven(journal: FileJournal<Numbered>, roots: readonly string[]): Promise<void> {
  const { length, root } = journal.head();
  for (const from of [0, 1, 2, 63, 64, 65, length - 1, length]) {
    assert.equal(journal.rootAt(from), roots[from]);
    const start = { length: from, root: journal.rootAt(from) };
    assert.ok(verifyConsistency({ from: start, to: { length, root }, proof: journal.proveStart(from) }));
  }
  for (const position of [0, 1, 40, length - 1]) {
    const entry = await journal.readEntry(position);
    const proof = journal.proveEntry(position);
    assert.deepEqual(JSON.parse(Buffer.from(entry).toString()), { n: position });
    assert.ok(verifyInclusion({ leaf: logLeaf(entry), position, length, proof, root }));
  }
}

describe("a journal's proofs", () => {
  it("lead from every head that it had to the newest, over segments, appends and reopening", async () => {
    const files = memoryFiles();
    const journal = await open(files);
    const roots = [journal.head().root as string];
    for (let n = 0; n < 150;) {
      const together = Array.from({ length: 1 + (n % 3) }, (_, i) => ({ n: n + i }));
      await journal.append(together);
      for (const _ of together) roots.push(journal.rootAt(++n));
    }
    await requireProven(journal, roots);
    await journal.close();
    const again = await open(files);
    await requireProven(again, roots);
    await again.append([{ n: again.head().length }]);
    roots.push(again.head().root);
    await requireProven(again, roots);
    await again.close();
  });

  it("refuse lengths that it does not have", async () => {
    const journal = await open(memoryFiles());
    await journal.append([{ n: 0 }]);
    for (const length of [2, -1, 0.5, 2 ** 53]) {
      assert.throws(() => journal.rootAt(length), isInvalid);
      assert.throws(() => journal.proveStart(length), isInvalid);
      assert.throws(() => journal.proveEntry(0, length), isInvalid);
      assert.throws(() => journal.proveEntry(length), isInvalid);
      await assert.rejects(() => journal.readEntry(length), isInvalid);
    }
    await journal.close();
  });

  it("read each block of older entries once, and one entry for an entry, for thousands of devices too", async () => {
    const files = memoryFiles();
    let opened = 0;
    let blocks = 0;
    let readBytes = 0;
    const counting: Files = {
      ...files,
      openNow: (path) => {
        blocks++;
        return files.openNow(path);
      },
      read: async (path) => {
        const bytes = await files.read(path);
        readBytes += bytes.length;
        return bytes;
      },
      open: async (path, mode) => {
        const file = await files.open(path, mode);
        if (mode === "read") opened++;
        return withOverrides(file, {
          read: async (target, position) => {
            const count = await file.read(target, position);
            readBytes += count;
            return count;
          },
        });
      },
    };
    const written = await open(counting);
    await written.append(Array.from({ length: 500 }, (_, n) => ({ n })));
    await written.close();
    const journal = await open(counting);
    opened = blocks = readBytes = 0;
    for (let device = 0; device < 20_000; device++) {
      journal.proveStart(device % 501);
      journal.proveEntry(device % 500);
    }
    assert.deepEqual({ opened, readBytes }, { opened: 0, readBytes: 0 });
    // The first 256 entries are a block, in several segments; the opening read the others.
    const segments = (await files.list(folder)).filter((name) => name.endsWith(".log")).length;
    assert.ok(blocks > 0 && blocks <= segments, `${blocks} reads`);
    for (let device = 0; device < 100; device++) await journal.readEntry((device * 7) % 500);
    assert.equal(opened, 100);
    assert.ok(readBytes < 100 * 100, `${readBytes} bytes`);
    await journal.close();
  });

  it("read no entry that was just written, and an older one from the disk, with the same bytes", async () => {
    const files = memoryFiles();
    let opened = 0;
    const counting: Files = {
      ...files,
      open: (path, mode) => {
        if (mode === "read") opened++;
        return files.open(path, mode);
      },
    };
    const journal = await openJournal<{ text: string }>(counting, folder);
    const texts = ["a", "b", "c"].map((letter) => letter.repeat(500_000));
    opened = 0;
    for (const text of texts) {
      const [position = -1] = await journal.append([{ text }]);
      assert.deepEqual(JSON.parse(Buffer.from(await journal.readEntry(position)).toString()), { text });
    }
    assert.equal(opened, 0);
    for (const [position, text] of texts.entries())
      assert.deepEqual(JSON.parse(Buffer.from(await journal.readEntry(position)).toString()), { text });
    assert.equal(opened, 1, "the newest MiB is in memory");
    await journal.close();
  });

  it("share one signature of a head between all that ask before the next entry", async () => {
    let signatures = 0;
    const signer = { publicKey: "key", sign: () => `signature ${++signatures}` };
    const journal = await openJournal<Numbered>(memoryFiles(), folder, { signer });
    for (let n = 0; n < 3; n++) {
      await journal.append([{ n }]);
      const head = journal.signedHead();
      for (let receipt = 0; receipt < 10; receipt++) assert.equal(journal.signedHead(), head);
      assert.deepEqual(head, { ...journal.head(), publicKey: "key", signature: `signature ${signatures}` });
      assert.equal(head.length, n + 1);
    }
    assert.ok(signatures <= 4, `${signatures} signatures for four heads`);
    await journal.close();
  });
});
