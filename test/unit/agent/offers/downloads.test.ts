// What a device fetches: what of it stays when a download ends early, and what each end means for the others.
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import {
  Downloads,
  transferOf,
  type Download,
  type DownloadTerms,
} from "../../../../agent/offers/downloads.js";
import { StemmaError } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Block, BlockRequest, Encoding, Fetch, ObjectRef } from "../../../../shared/wire/messages.js";
import { runSender, type RunningSender } from "../../../../shared/wire/transfer/run-sender.js";
import { streamObjectOfBytes } from "../../../../shared/wire/transfer/stream.js";
import { nextEventLoopTurn } from "../../../helpers/agent-test-environment.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const blockBytes = 4096;
/** After so many blocks the device writes down what it has. */
const blocksPerSave = 16;
const blocks = 40;
const folder = "/downloads";
const maxUnknownBytes = 2 ** 20;
const bytes = seededRandom("stream").bytes(blocks * blockBytes);
const ref: ObjectRef = { kind: "tensor", id: sha256(bytes), byteLength: bytes.length };
const version = sha256("version");
const isCode = (code: string) => (error: unknown) => error instanceof StemmaError && error.code === code;

let clock: ReturnType<typeof manualClock>;
let files: ReturnType<typeof memoryFiles>;
let sent: (Fetch | BlockRequest | { readonly type: "transferDone" })[];
let downloads: Downloads;
/** A block as the link delivers it; undefined: lost. */
let deliver: (block: Block, count: number) => Block | undefined;
let encodings: readonly Encoding[];
let isServerSilent: boolean;

const filesLeft = (): Promise<readonly string[]> => files.list(folder);
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 60; turn++) await nextEventLoopTurn();
};

/** An agent that has just been started, and the server at the other end. */
function start(): void {
  const senders = new Map<string, RunningSender>();
  let count = 0;
  sent = [];
  const senderOf = (transfer: string): RunningSender => {
    const known = senders.get(transfer);
    if (known !== undefined) return known;
    const made = runSender({ transfer, blockBytes, encodings }, [streamObjectOfBytes(bytes)], {
      clock,
      onFailed: (error) => {
        throw error;
      },
      send: (message) => {
        if (message.type !== "block") downloads.onManifest(message);
        else {
          const delivered = deliver(message, count++);
          if (delivered !== undefined) downloads.onBlock(transfer, delivered);
        }
        return Promise.resolve();
      },
    });
    senders.set(transfer, made);
    return made;
  };
  downloads = new Downloads({
    files,
    folder,
    clock,
    blockBytes,
    window: 4,
    send: (body) => {
      sent.push(body);
      if (body.type === "blockRequest" && !isServerSilent) senderOf(body.transfer).onRequest(body);
      return true;
    },
  });
}
const fetch = (versionId: Hash = version, terms?: DownloadTerms): Promise<Download> =>
  downloads.fetch(versionId, [ref], maxUnknownBytes, terms);
/** The blocks that this run of the agent asked for. */
const requested = (): number =>
  new Set(sent.flatMap((body) => (body.type === "blockRequest" ? body.blocks : []))).size;
const isFetch = (body: { readonly type: string }): body is Fetch => body.type === "fetch";

beforeEach(() => {
  clock = manualClock();
  files = memoryFiles();
  deliver = (block) => block;
  encodings = [];
  isServerSilent = false;
  start();
});

describe("a download", () => {
  it("is the stream, and leaves nothing when it is done", async () => {
    const download = await fetch();
    assert.deepEqual(await download.read(0, bytes.length), bytes);
    assert.equal(downloads.count, 0);
    assert.notDeepEqual(await filesLeft(), []);
    await download.done();
    assert.deepEqual(await filesLeft(), []);
    assert.equal(sent.at(-1)?.type, "transferDone");
  });

  it("goes on where it was when the agent stopped", async () => {
    deliver = (block, count) => (count < blocksPerSave ? block : undefined);
    const started = fetch();
    const stopped = assert.rejects(started, isCode("INTERRUPTED"));
    await settle();
    downloads.stop();
    await stopped;
    assert.equal(downloads.count, 0);
    deliver = (block) => block;
    start();
    const download = await fetch();
    // The block whose write led to the save is not in it.
    assert.equal(requested(), blocks - (blocksPerSave - 1));
    assert.deepEqual(await download.read(0, bytes.length), bytes);
  });

  it("keeps what it has where the server refuses to go on, and takes a refusal only for itself", async () => {
    deliver = (block, count) => (count < 2 * blocksPerSave ? block : undefined);
    const refused = assert.rejects(fetch(), isCode("NOT_ALLOWED"));
    const other = fetch(sha256("other"));
    await settle();
    assert.equal(downloads.count, 2);
    assert.equal(downloads.onRefused("00".repeat(16), new StemmaError("NOT_ALLOWED", "no")), false);
    assert.equal(downloads.count, 2);
    const transfer = transferOf(version, [ref], blockBytes);
    assert.equal(downloads.onRefused(transfer, new StemmaError("NOT_ALLOWED", "no")), true);
    await refused;
    assert.equal(downloads.count, 1);
    assert.equal(downloads.onRefused(transfer, new StemmaError("NOT_ALLOWED", "no")), false, "it is over");
    const left = await filesLeft();
    assert.ok(left.includes(`${transfer}.part`), left.join(" "));
    const stopped = assert.rejects(other, isCode("INTERRUPTED"));
    downloads.stop();
    await stopped;
  });

  it("forgets what it has where that can be of no use: blocks that are not those of the manifest", async () => {
    deliver = (block) =>
      block.index === 20 ? { ...block, data: block.data.map((byte) => byte ^ 1) } : block;
    await assert.rejects(fetch(), isCode("BLOCK_HASH_MISMATCH"));
    assert.deepEqual(await filesLeft(), []);
  });

  for (const [code, codes, terms] of [
    ["TRANSFER_MANIFEST_INVALID", [{ code: 2, byteLength: bytes.length }], undefined],
    [
      "DELTA_CODE_UNKNOWN",
      [{ code: 99, byteLength: bytes.length }],
      { codec: 3, references: [], tensors: new Set<Hash>() },
    ],
  ] as const)
    it(`forgets what it has where that can be of no use: ${code}`, async () => {
      encodings = codes;
      await assert.rejects(fetch(version, terms), isCode(code));
      assert.deepEqual(await filesLeft(), []);
    });

  it("keeps what it has where the link is silent for too long", async () => {
    deliver = (block, count) => (count < blocksPerSave ? block : undefined);
    const stalled = assert.rejects(fetch(), isCode("TRANSFER_STALLED"));
    for (let minute = 0; minute < 60; minute++) {
      await settle();
      clock.advance(60_000);
    }
    await stalled;
    assert.equal((await filesLeft()).length, 2);
  });

  it("starts from the beginning where the state that it left is of another stream", async () => {
    deliver = (block, count) => (count < blocksPerSave ? block : undefined);
    const stopped = assert.rejects(fetch(), isCode("INTERRUPTED"));
    await settle();
    downloads.stop();
    await stopped;
    const path = `${folder}/${transferOf(version, [ref], blockBytes)}.json`;
    const state = JSON.parse(new TextDecoder().decode(await files.read(path))) as object;
    await files.remove(path);
    const file = await files.open(path, "create");
    await file.write(new TextEncoder().encode(JSON.stringify({ ...state, transfer: "x" })), 0);
    await file.close();
    deliver = (block) => block;
    start();
    const download = await fetch();
    assert.equal(requested(), blocks);
    assert.deepEqual(await download.read(0, bytes.length), bytes);
  });

  it("asks for all of its objects again when a session is open", async () => {
    deliver = (block, count) => (count < 2 ? block : undefined);
    const stopped = assert.rejects(fetch(), isCode("INTERRUPTED"));
    await settle();
    const before = sent.filter(isFetch);
    deliver = () => undefined;
    downloads.reconnected();
    assert.deepEqual(sent.filter(isFetch), [...before, ...before]);
    downloads.stop();
    await stopped;
  });

  it("names what it may be coded against, and once it is known how long the stream is", async () => {
    deliver = () => undefined;
    const terms = { codec: 3, references: [sha256("held")], tensors: new Set<Hash>() };
    const stopped = assert.rejects(fetch(version, terms), isCode("INTERRUPTED"));
    await settle();
    downloads.reconnected();
    const [first, again] = sent.filter(isFetch);
    assert.deepEqual([first?.codec, first?.references, first?.streamBytes], [3, terms.references, undefined]);
    assert.deepEqual([again?.codec, again?.streamBytes], [3, bytes.length]);
    downloads.stop();
    await stopped;
  });
});

describe("the id of a transfer", () => {
  const terms: DownloadTerms = { codec: 3, references: [sha256("held")], tensors: new Set() };
  const of = (...changes: Parameters<typeof transferOf>): string => transferOf(...changes);

  it("is the same for the same objects on the same terms, and differs with each of them", () => {
    assert.equal(of(version, [ref], blockBytes, terms), of(version, [{ ...ref }], blockBytes, { ...terms }));
    const ids = [
      of(version, [ref], blockBytes),
      of(sha256("other"), [ref], blockBytes),
      of(version, [ref, ref], blockBytes),
      of(version, [{ ...ref, kind: "tree" }], blockBytes),
      of(version, [{ ...ref, id: version }], blockBytes),
      of(version, [ref], 2 * blockBytes),
      of(version, [ref], blockBytes, terms),
      of(version, [ref], blockBytes, { ...terms, codec: 2 }),
      of(version, [ref], blockBytes, { ...terms, references: [] }),
      of(version, [ref], blockBytes, { ...terms, references: [version] }),
    ];
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(ids.every((id) => /^[0-9a-f]{32}$/.test(id)));
  });

  it("is said with the list of its objects, in messages of a thousand", async () => {
    isServerSilent = true;
    const refs = Array.from({ length: 1001 }, (_, at) => ({ ...ref, id: sha256(String(at)) }));
    const stopped = assert.rejects(downloads.fetch(version, refs, maxUnknownBytes), isCode("INTERRUPTED"));
    await settle();
    const parts = sent.filter(isFetch);
    assert.deepEqual(
      parts.map(({ part, parts: of, objects }) => [part, of, objects.length]),
      [
        [0, 2, 1000],
        [1, 2, 1],
      ],
    );
    assert.deepEqual(
      parts.flatMap(({ objects }) => objects),
      refs,
    );
    downloads.stop();
    await stopped;
  });
});
