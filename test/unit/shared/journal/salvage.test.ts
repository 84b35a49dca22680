/** What is saved of a damaged journal, and what is called lost: a flipped bit is put right, a gap is a gap. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { join } from "node:path";
import {
  encodeSegmentHeader,
  frameHeaderBytes,
  segmentHeaderBytes,
} from "../../../../shared/journal/frame.js";
import { newestHead, type KeptHead } from "../../../../shared/journal/head.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import { readDamagedJournal, type SalvagedEntries } from "../../../../shared/journal/salvage.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { segmentOfFormat } from "../../../helpers/segment-format.js";
import type { TestFact } from "../../../contract/shared/journal/journal-contract.js";

const folder = "/journal";
const payloads = [0, 1, 2, 3].map((n) => `{"n":${n}}`);
const frameBytes = frameHeaderBytes + 7;

/** A journal of four facts: its segments by path, and its head. */
async function written(
  segmentBytes = 1e6,
  facts = payloads.length,
): Promise<{ segments: Map<string, Uint8Array>; head: KeptHead }> {
  const files = memoryFiles();
  const journal = await openJournal<TestFact>(files, folder, { segmentBytes });
  for (let n = 0; n < facts; n++) await journal.append([{ n }]);
  const empty = { ...journal.head(), publicKey: "", signature: "" };
  await journal.close();
  const segments = new Map<string, Uint8Array>();
  for (const name of (await files.list(folder)).filter((each) => each.endsWith(".log")).sort())
    segments.set(join(folder, name), await files.read(join(folder, name)));
  return { segments, head: newestHead(await files.read(join(folder, "head"))) ?? empty };
}

async function salvaged(
  segments: ReadonlyMap<string, Uint8Array>,
  head?: KeptHead,
): Promise<SalvagedEntries> {
  const files = memoryFiles();
  await files.makeFolder(folder);
  for (const [path, bytes] of segments) {
    const file = await files.open(path, "create");
    await file.write(bytes, 0);
    await file.close();
  }
  return await readDamagedJournal(files, folder, head);
}

/** The result in short: texts of what was read, and the rest. */
const short = ({ verified, later, repaired, gaps, agreesWithHead }: SalvagedEntries) => ({
  verified: verified.map((bytes) => Buffer.from(bytes).toString()),
  later: later.map((bytes) => Buffer.from(bytes).toString()),
  repaired,
  gaps,
  agreesWithHead,
});
const whole = { verified: payloads, later: [], repaired: [], gaps: 0, agreesWithHead: true };

/** One segment with these bytes of it changed. */
async function changed(change: (bytes: Uint8Array) => Uint8Array | undefined) {
  const { segments, head } = await written();
  const [[path, bytes]] = [...segments] as [[string, Uint8Array]];
  const copy = bytes.slice();
  return { segments: new Map([[path, change(copy) ?? copy]]), head };
}
const frameOf = (index: number) => segmentHeaderBytes + index * frameBytes;

describe("a damaged journal", () => {
  it("is whole where nothing is missing, with and without its head", async () => {
    const { segments, head } = await written();
    assert.deepEqual(short(await salvaged(segments, head)), whole);
    assert.deepEqual(short(await salvaged(segments)), { ...whole, agreesWithHead: undefined });
    assert.deepEqual(short(await salvaged(new Map())), {
      ...whole,
      verified: [],
      agreesWithHead: undefined,
    });
    const { head: none } = await written(1e6, 0);
    assert.deepEqual(short(await salvaged(new Map(), none)), { ...whole, verified: [] });
  });

  it("is put right where one bit of an entry is another, whichever", async () => {
    for (let bit = 0; bit < 8 * frameBytes; bit++) {
      const { segments, head } = await changed((bytes) => {
        const at = frameOf(1) + (bit >> 3);
        bytes[at] = bytes[at]! ^ (1 << (bit & 7));
        return undefined;
      });
      assert.deepEqual(short(await salvaged(segments, head)), { ...whole, repaired: [1] }, `bit ${bit}`);
    }
  });

  it("has a gap where two bits are, and keeps what follows apart; positions go on counting", async () => {
    const { segments, head } = await changed((bytes) => {
      bytes[frameOf(1) + frameHeaderBytes + 2]! ^= 0x11;
      bytes[frameOf(3) + frameHeaderBytes + 2]! ^= 0x10;
      return undefined;
    });
    assert.deepEqual(short(await salvaged(segments, head)), {
      verified: payloads.slice(0, 1),
      later: payloads.slice(2),
      // The place among what can be read.
      repaired: [2],
      gaps: 1,
      agreesWithHead: undefined,
    });
  });
});

describe("the end of a damaged journal", () => {
  it("is lost where the head counts more, and a torn tail where it does not", async () => {
    for (const cut of [frameBytes, frameBytes - 1, 1]) {
      const { segments, head } = await changed((bytes) => bytes.slice(0, bytes.length - cut));
      const left = { ...whole, verified: payloads.slice(0, 3), agreesWithHead: undefined };
      assert.deepEqual(short(await salvaged(segments, head)), { ...left, gaps: 1 }, `${cut} cut off`);
      assert.deepEqual(short(await salvaged(segments)), left, `${cut} cut off, without a head`);
    }
  });

  it("is one gap, not two, where something before it is missing, too", async () => {
    const { segments, head } = await changed((bytes) => {
      bytes[frameOf(1) + frameHeaderBytes + 2]! ^= 0x11;
      return bytes.slice(0, frameOf(3));
    });
    const { verified, later, gaps } = short(await salvaged(segments, head));
    assert.deepEqual([verified, later, gaps], [payloads.slice(0, 1), payloads.slice(2, 3), 1]);
  });

  it("does not agree with a head of another history of the same length", async () => {
    const { segments, head } = await written();
    const other = { ...head, chain: head.root };
    assert.deepEqual(short(await salvaged(segments, other)), { ...whole, agreesWithHead: false });
  });
});

describe("a damaged segment", () => {
  it("follows by its place where its header is damaged, and is a gap where it is missing", async () => {
    const { segments, head } = await written(80);
    const paths = [...segments.keys()];
    assert.ok(paths.length > 2);
    const garbled = new Map(segments);
    garbled.set(
      paths[1]!,
      segments.get(paths[1]!)!.map((byte, at) => (at < 16 ? 0xa5 : byte)),
    );
    assert.deepEqual(short(await salvaged(garbled, head)), whole);
    const isGap = async (damaged: ReadonlyMap<string, Uint8Array>, why: string) => {
      const { verified, later, gaps } = short(await salvaged(damaged, head));
      assert.equal(gaps, 1, why);
      assert.deepEqual(verified, payloads.slice(0, 1), why);
      assert.ok(later.length > 0, why);
    };
    const missing = new Map(segments);
    missing.delete(paths[1]!);
    await isGap(missing, "one is missing");
    missing.set(
      paths[2]!,
      segments.get(paths[2]!)!.map((byte, at) => (at < 16 ? 0xa5 : byte)),
    );
    await isGap(missing, "the header of the one after it is damaged, too");
    const foreign = new Map(segments);
    const header = encodeSegmentHeader({
      first: Number(/(\d+)\.log$/u.exec(paths[1]!)![1]),
      chain: head.root,
    });
    foreign.set(paths[1]!, Buffer.concat([header, segments.get(paths[1]!)!.subarray(segmentHeaderBytes)]));
    await isGap(foreign, "one is of another history");
  });

  it("has nothing more to give where nothing of it can be read, unless a newer program could", async () => {
    // Not even an entry is left: that is damage, and not another format.
    const { segments, head } = await changed((bytes) => bytes.fill(0xa5));
    const { verified, gaps } = short(await salvaged(segments, head));
    assert.deepEqual([verified, gaps], [[], 1]);
    const shortened = await changed((bytes) => bytes.slice(0, segmentHeaderBytes - 1));
    assert.equal((await salvaged(shortened.segments)).gaps, 1);
    // Another format's header before entries of this one: only the header can be damaged.
    const foreign = await changed((bytes) => segmentOfFormat(2, bytes));
    assert.deepEqual(short(await salvaged(foreign.segments, foreign.head)), whole);
    const newer = await changed((bytes) =>
      segmentOfFormat(2, bytes).map((byte, at) => (at < segmentHeaderBytes ? byte : byte ^ 0xff)),
    );
    await assert.rejects(() => salvaged(newer.segments), { code: "JOURNAL_FORMAT_UNKNOWN" });
  });
});
