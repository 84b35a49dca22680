/** The contract of journals. Each implementation calls `journalContract` with the files to open it on. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import type { HeadSigner } from "../../../../shared/journal/journal.js";
import { logLeaf, verifyInclusion } from "../../../../shared/journal/merkle-log.js";
import type { FileJournal } from "../../../../shared/journal/file-journal.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import type { Files } from "../../../../shared/ports.js";

export interface TestFact {
  readonly n: number;
  readonly text?: string;
}
export const code =
  (expected: ErrorCode) =>
  (error: unknown): boolean =>
    error instanceof StemmaError && error.code === expected;

/** Replaces Ed25519: these tests check that the journal signs and verifies the right bytes. */
export function testSigner(key: string): HeadSigner {
  const sign = (message: Uint8Array): string =>
    createHash("sha256").update(key).update(message).digest("hex");
  return { publicKey: key, sign, verify: (message, signature) => sign(message) === signature };
}

export async function numbersIn(journal: FileJournal<TestFact>, from?: number): Promise<number[]> {
  const found: number[] = [];
  for await (const { fact, position } of journal.entries(from)) {
    assert.equal(position, (from ?? 0) + found.length);
    found.push(fact.n);
  }
  return found;
}
const range = (length: number, from = 0): number[] => Array.from({ length }, (_, i) => from + i);

/** RFC 6962 section 2.1, by its definition. */
function rootByDefinition(entries: readonly Uint8Array[]): Uint8Array {
  const hash = (...parts: Uint8Array[]): Uint8Array => {
    const h = createHash("sha256");
    for (const part of parts) h.update(part);
    return h.digest();
  };
  if (entries.length === 0) return hash();
  if (entries.length === 1) return hash(new Uint8Array([0]), entries[0] as Uint8Array);
  let split = 1;
  while (split * 2 < entries.length) split *= 2;
  return hash(
    new Uint8Array([1]),
    rootByDefinition(entries.slice(0, split)),
    rootByDefinition(entries.slice(split)),
  );
}

export function journalContract(
  name: string,
  place: () => Promise<{ readonly files: Files; readonly folder: string }>,
): void {
  describe(`journal contract: ${name}`, () => {
    it("returns facts in order, also after reopening, over many segments", async () => {
      const { files, folder } = await place();
      const journal = await openJournal<TestFact>(files, folder, { segmentBytes: 500 });
      assert.deepEqual(await journal.append([]), []);
      assert.deepEqual(await journal.append([{ n: 0 }, { n: 1 }]), [0, 1]);
      for (const n of range(48, 2)) assert.deepEqual(await journal.append([{ n }]), [n]);
      assert.deepEqual(await numbersIn(journal), range(50));
      assert.deepEqual(await numbersIn(journal, 37), range(13, 37));
      assert.deepEqual(await numbersIn(journal, 50), []);
      const head = journal.head();
      await journal.close();
      const again = await openJournal<TestFact>(files, folder, { segmentBytes: 500 });
      assert.deepEqual(again.head(), head);
      assert.deepEqual(again.opening, { length: 50, tornBytes: 0 });
      assert.deepEqual(await numbersIn(again, 1), range(49, 1));
      assert.deepEqual(await again.append([{ n: 50 }]), [50]);
      assert.ok((await again.byteLength()) > 50 * 24);
      await again.close();
    });

    it("chains and hashes as documented, and proves every entry", async () => {
      const { files, folder } = await place();
      const journal = await openJournal<TestFact>(files, folder);
      const bytes: Uint8Array[] = [];
      let chain: Uint8Array = new Uint8Array(32);
      for (const n of range(21)) {
        await journal.append([{ n }]);
        const entry = new TextEncoder().encode(JSON.stringify({ n }));
        bytes.push(entry);
        chain = createHash("sha256").update(chain).update(entry).digest();
        assert.deepEqual(journal.head(), {
          length: n + 1,
          chain: Buffer.from(chain).toString("hex"),
          root: Buffer.from(rootByDefinition(bytes)).toString("hex"),
        });
      }
      for (const position of range(21)) {
        const entry = await journal.readEntry(position);
        const proof = journal.proveEntry(position);
        assert.deepEqual(entry, bytes[position]);
        const { length, root } = journal.head();
        const inclusion = { leaf: logLeaf(entry), position, length, proof, root };
        assert.ok(verifyInclusion(inclusion));
        assert.ok(!verifyInclusion({ ...inclusion, leaf: logLeaf(new Uint8Array([7])) }));
        assert.ok(!verifyInclusion({ ...inclusion, position: (position + 1) % 21 }));
      }
      await assert.rejects(() => journal.readEntry(21), code("FACT_INVALID"));
      assert.throws(() => journal.proveEntry(21), code("FACT_INVALID"));
      await journal.close();
    });

    it("shares one fsync among appends in flight", async () => {
      const { files, folder } = await place();
      let syncs = 0;
      const counting: Files = {
        ...files,
        async open(path, mode) {
          const file = await files.open(path, mode);
          return {
            read: (target, at) => file.read(target, at),
            write: (bytes, at) => file.write(bytes, at),
            size: () => file.size(),
            truncate: (size) => file.truncate(size),
            sync: () => {
              syncs++;
              return file.sync();
            },
            close: () => file.close(),
          };
        },
      };
      const journal = await openJournal<TestFact>(counting, folder);
      syncs = 0;
      const positions = await Promise.all(range(200).map((n) => journal.append([{ n }])));
      assert.deepEqual(positions.flat(), range(200));
      assert.ok(syncs <= 2, `${syncs} fsyncs for 200 appends of one turn`);
      await journal.close();
    });

    it("signs its head, and detects a head signed with another key", async () => {
      const { files, folder } = await place();
      const journal = await openJournal<TestFact>(files, folder, { signer: testSigner("one") });
      await journal.append([{ n: 0 }]);
      const { publicKey, signature, ...head } = journal.signedHead();
      assert.deepEqual(head, journal.head());
      assert.equal(publicKey, "one");
      const message = Buffer.concat([
        Buffer.from("stemma-head-1\0\x01\0\0\0\0\0\0\0"),
        Buffer.from(head.chain, "hex"),
        Buffer.from(head.root, "hex"),
      ]);
      assert.equal(signature, testSigner("one").sign(message));
      await journal.close();
      await assert.rejects(
        () => openJournal<TestFact>(files, folder, { signer: testSigner("two") }),
        code("HEAD_SIGNATURE_INVALID"),
      );
      const unsigned = await openJournal<TestFact>(files, folder);
      assert.throws(() => unsigned.signedHead(), code("KEY_INVALID"));
      await unsigned.close();
    });

    it("refuses values that are not facts, and continues", async () => {
      const { files, folder } = await place();
      const journal = await openJournal<TestFact>(files, folder);
      const circular: { n: number; self?: unknown } = { n: 1 };
      circular.self = circular;
      await assert.rejects(() => journal.append([{ n: 0 }, circular]), code("FACT_INVALID"));
      await assert.rejects(
        () => journal.append([{ n: 0, text: "x".repeat(1024 * 1024) }]),
        code("FACT_INVALID"),
      );
      assert.deepEqual(await journal.append([{ n: 2 }]), [0]);
      assert.deepEqual(await numbersIn(journal), [2]);
      await journal.close();
      await assert.rejects(() => journal.append([{ n: 3 }]), code("JOURNAL_STOPPED"));
    });

    it("finishes what was appended before it closes", async () => {
      const { files, folder } = await place();
      const journal = await openJournal<TestFact>(files, folder);
      const appends = range(30).map((n) => journal.append([{ n }]));
      await journal.close();
      assert.equal((await Promise.all(appends)).length, 30);
      const again = await openJournal<TestFact>(files, folder);
      assert.deepEqual(await numbersIn(again), range(30));
      await again.close();
    });

    it("copies itself up to a length, and the copy opens as a journal", async () => {
      const { files, folder } = await place();
      const journal = await openJournal<TestFact>(files, folder, {
        segmentBytes: 400,
        signer: testSigner("one"),
      });
      const heads = [journal.head()];
      for (const n of range(40)) {
        await journal.append([{ n }]);
        heads.push(journal.head());
      }
      for (const length of [0, 1, 17, 40]) {
        const target = `${folder}-copy-${length}`;
        await journal.copyTo(target, length);
        const copy = await openJournal<TestFact>(files, target, {
          segmentBytes: 400,
          signer: testSigner("two"),
        });
        assert.deepEqual(copy.head(), heads[length]);
        assert.deepEqual(await copy.append([{ n: length }]), [length]);
        assert.deepEqual(await numbersIn(copy), range(length + 1));
        await copy.close();
      }
      await journal.close();
    });
  });
}
