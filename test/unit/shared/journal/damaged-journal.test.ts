/**
 * A journal on a disk that something else changed: a torn tail is cut off; anything else is an error and
 * changes nothing.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { join } from "node:path";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { segmentOfFormat } from "../../../helpers/segment-format.js";
import { decodeSegmentHeader, encodeSegmentHeader } from "../../../../shared/journal/frame.js";
import { headMessage } from "../../../../shared/journal/head-message.js";
import { encodeHeadSlot, newestHead } from "../../../../shared/journal/head.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import { readDamagedJournal } from "../../../../shared/journal/salvage.js";
import type { Files } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import {
  code,
  numbersIn,
  testSigner,
  type TestFact,
} from "../../../contract/shared/journal/journal-contract.js";

const folder = "/home/journal";
const firstSegment = join(folder, "0000000000000000.log");

/** A journal of ten facts, each in its own group except the last two, which were appended together. */
async function written(
  options: { readonly segmentBytes?: number; readonly head?: "kept" | "older" | "none" } = {},
): Promise<Files> {
  const files = memoryFiles();
  const journal = await openJournal<TestFact>(files, folder, {
    segmentBytes: options.segmentBytes ?? 1e6,
    signer: testSigner("k"),
  });
  for (let n = 0; n < 8; n++) await journal.append([{ n }]);
  const older = await files.read(join(folder, "head"));
  await journal.append([{ n: 8 }, { n: 9 }]);
  await journal.close();
  if (options.head === "none") await files.remove(join(folder, "head"));
  if (options.head === "older") await overwrite(files, join(folder, "head"), older);
  return files;
}

async function overwrite(files: Files, path: string, bytes: Uint8Array): Promise<void> {
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}

async function snapshot(files: Files): Promise<string> {
  const all = await Promise.all(
    (await files.list(folder)).map(async (name) => [
      name,
      Buffer.from(await files.read(join(folder, name))).toString("base64"),
    ]),
  );
  return JSON.stringify(all);
}

const open = (files: Files) => openJournal<TestFact>(files, folder, { signer: testSigner("k") });

it("detects a flipped bit anywhere below its head, and drops nothing", async () => {
  const original = await (await written()).read(firstSegment);
  for (let at = 0; at < original.length; at++) {
    const files = await written();
    const bytes = original.slice();
    bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
    await overwrite(files, firstSegment, bytes);
    const before = await snapshot(files);
    await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"), `byte ${at}`);
    assert.equal(await snapshot(files), before, "a refusal changes nothing");
  }
});

it("detects a flipped bit before the last group, even without a head", async () => {
  const files = await written({ head: "none" });
  const original = await files.read(firstSegment);
  const lastGroup = original.length - 2 * (24 + '{"n":8}'.length);
  for (let at = 64; at < lastGroup; at++) {
    const bytes = original.slice();
    bytes[at] = (bytes[at] as number) ^ 0x10;
    await overwrite(files, firstSegment, bytes);
    await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"), `byte ${at}`);
  }
});

it("cuts a tail that was never acknowledged, at every length, and keeps a copy of it", async () => {
  const original = await (await written()).read(firstSegment);
  const lastGroup = original.length - 2 * (24 + '{"n":8}'.length);
  for (let length = lastGroup; length <= original.length; length++) {
    const files = await written({ head: "older" });
    await overwrite(files, firstSegment, original.slice(0, length));
    const journal = await open(files);
    // Facts appended together are kept or cut together.
    const left = length === original.length ? 10 : 8;
    assert.deepEqual(
      await numbersIn(journal),
      Array.from({ length: left }, (_, i) => i),
      `length ${length}`,
    );
    assert.equal(journal.opening.tornBytes, left === 10 ? 0 : length - lastGroup);
    if (left === 8 && length > lastGroup)
      assert.deepEqual(await files.read(join(folder, "torn-8")), original.slice(lastGroup, length));
    assert.deepEqual(await journal.append([{ n: 77 }]), [left]);
    await journal.close();
    const again = await open(files);
    assert.equal((await numbersIn(again)).at(-1), 77);
    await again.close();
  }
});

it("refuses a tail shorter than the head declares, a missing segment, an exchanged one, a foreign format", async () => {
  const shortened = await written();
  await overwrite(shortened, firstSegment, (await shortened.read(firstSegment)).slice(0, -40));
  await assert.rejects(() => open(shortened), code("JOURNAL_CORRUPT"));

  const segments = async (): Promise<string[]> =>
    (await (await written({ segmentBytes: 100 })).list(folder)).filter((name) => name.endsWith(".log"));
  assert.ok((await segments()).length > 4);
  for (const [i, name] of (await segments()).entries()) {
    const files = await written({ segmentBytes: 100 });
    await files.remove(join(folder, name));
    await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"), `segment ${i} removed`);
  }
  const names = await segments();
  const swapped = await written({ segmentBytes: 100, head: "none" });
  await overwrite(
    swapped,
    join(folder, names[2] as string),
    await swapped.read(join(folder, names[1] as string)),
  );
  await assert.rejects(() => open(swapped), code("JOURNAL_CORRUPT"));

  const newer = await written();
  const bytes = await newer.read(firstSegment);
  await overwrite(newer, firstSegment, segmentOfFormat(2, bytes));
  await assert.rejects(() => open(newer), code("JOURNAL_FORMAT_UNKNOWN"));
});

it("refuses a head whose root or chain alone is another", async () => {
  for (const member of ["root", "chain"] as const) {
    const files = await written({ head: "none" });
    const head = newestHead(await (await written()).read(join(folder, "head")))!;
    const forged = { ...head, [member]: sha256("another") };
    const signature = testSigner("k").sign(headMessage(forged));
    await overwrite(files, join(folder, "head"), encodeHeadSlot({ ...forged, signature }));
    await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"), member);
  }
});

it("refuses a segment that begins at the right place and follows from another history", async () => {
  const options = { segmentBytes: 100, head: "none" } as const;
  const files = await written(options);
  const names = (await files.list(folder)).filter((name) => name.endsWith(".log")).sort();
  const last = join(folder, names.at(-1)!);
  const bytes = (await files.read(last)).slice();
  const { first } = decodeSegmentHeader(bytes, last);
  bytes.set(encodeSegmentHeader({ first, chain: sha256("another") }), 0);
  await overwrite(files, last, bytes);
  await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"));
  // Nor one whose header names another place than its file and the entries before it.
  const { chain } = decodeSegmentHeader(await (await written(options)).read(last), last);
  bytes.set(encodeSegmentHeader({ first: first + 1, chain }), 0);
  await overwrite(files, last, bytes);
  await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"));
});

it("leaves nothing behind where nothing was torn", async () => {
  const files = await written();
  const journal = await open(files);
  assert.equal(journal.opening.tornBytes, 0);
  await journal.close();
  assert.deepEqual((await files.list(folder)).sort(), ["0000000000000000.log", "head"]);
});

it("salvages a segment whose format field is damaged, and refuses one of a newer format", async () => {
  const files = await written({ head: "none" });
  const original = await files.read(firstSegment);
  for (let bit = 0; bit < 32; bit++) {
    const bytes = original.slice();
    bytes[8 + (bit >> 3)] = (bytes[8 + (bit >> 3)] as number) ^ (1 << (bit & 7));
    await overwrite(files, firstSegment, bytes);
    await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"), `bit ${bit}`);
    const { verified, gaps } = await readDamagedJournal(files, folder, undefined);
    assert.deepEqual([verified.length, gaps], [10, 0], `bit ${bit}`);
  }
  // Entries of a newer format cannot be read: they must not be given up as lost.
  const newer = segmentOfFormat(2, original);
  for (let at = 64; at < newer.length; at++) newer[at] = (newer[at] as number) ^ 0xff;
  await overwrite(files, firstSegment, newer);
  await assert.rejects(() => readDamagedJournal(files, folder, undefined), code("JOURNAL_FORMAT_UNKNOWN"));
});

it("opens without a head, with a torn one, and with a garbled one", async () => {
  for (const head of [undefined, new Uint8Array(0), new Uint8Array(2048).fill(0xa5), new Uint8Array(700)]) {
    const files = await written({ head: "none" });
    if (head !== undefined) await overwrite(files, join(folder, "head"), head);
    const journal = await open(files);
    assert.equal((await numbersIn(journal)).length, 10);
    await journal.close();
  }
});

it("notices a history that was rewritten with all its checksums right", async () => {
  const files = await written();
  const forged = memoryFiles();
  const other = await openJournal<TestFact>(forged, folder);
  for (let n = 0; n < 10; n++) await other.append([{ n: n === 4 ? 666 : n }]);
  await other.close();
  await overwrite(files, firstSegment, await forged.read(firstSegment));
  await assert.rejects(() => open(files), code("JOURNAL_CORRUPT"));
});

it("reads a bounded part of a hostile segment", async () => {
  const files = await written({ head: "none" });
  const bytes = await files.read(firstSegment);
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(64 + 4, 0xffffffff, true);
  await overwrite(files, firstSegment, bytes.slice(0, 64 + 24));
  const journal = await open(files);
  assert.equal(journal.head().length, 0);
  await journal.close();
});
