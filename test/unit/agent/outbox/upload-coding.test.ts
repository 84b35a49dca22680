/**
 * Coded uploads, and the conditions that prevent coding: the upload is then raw and leaves nothing on the
 * disk.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { UploadCoding } from "../../../../agent/outbox/upload-coding.js";
import { Uploads } from "../../../../agent/outbox/uploads.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import type { Files, Log, LogFields } from "../../../../shared/ports.js";
import { memoryStore } from "../../../../shared/objects/memory-store.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import { loadSaveBase, saveModel } from "../../../../shared/save/save-model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { BlockRequest, ManifestPart, ObjectRef, Want } from "../../../../shared/wire/messages.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { manualClock } from "../../../helpers/manual-clock.js";
import { lowRankPair } from "../../../helpers/related-tensors.js";

const clock = manualClock();
const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

interface SavedChild {
  readonly files: Files;
  readonly coding: UploadCoding;
  readonly uploads: Uploads;
  readonly want: Want;
  readonly refs: readonly ObjectRef[];
  readonly logged: (readonly [string, LogFields])[];
  readonly manifests: ManifestPart[];
  readonly childId: Hash;
}

/** A base and a child of half a megabyte in the device's store. */
async function savedChild({
  mode = "always",
  hasSpace = true,
  metered = false,
  codec = 1,
}: {
  readonly mode?: "always" | "auto" | "never";
  readonly hasSpace?: boolean;
  readonly metered?: boolean;
  readonly codec?: number;
} = {}): Promise<SavedChild> {
  const files = memoryFiles();
  const objects = memoryStore({ clock });
  const logged: (readonly [string, LogFields])[] = [];
  const manifests: ManifestPart[] = [];
  const note = (event: string, fields: LogFields = {}): void => {
    logged.push([event, fields]);
  };
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
  const { base: body, child: tuned } = lowRankPair("F32", [400, 320], {
    split: 1,
    rank: 1,
    size: 1e-4,
    noise: 1e-5,
    seed: 1,
  });
  const about = { name: "m", fleet: "f", device: "d", line: "l", environment: { backend: "none" } };
  const base = await saveModel(
    objects,
    opaqueModelSource([{ name: "w", ...body }]),
    { ...about, sequence: 1, bases: [] },
    clock,
  );
  const source = opaqueModelSource([{ name: "w", ...tuned }]);
  const child = await saveModel(
    objects,
    source,
    { ...about, sequence: 2, bases: [await loadSaveBase(objects, base.versionId)] },
    clock,
  );
  const coding = new UploadCoding({
    objects,
    files,
    folder: "/transfers",
    clock,
    log,
    link: testProfile({ "link.coding": mode, "link.metered": metered }).link,
    memoryLimitMb: 256,
    mayTake: () => Promise.resolve(hasSpace),
  });
  const uploads = new Uploads({
    objects,
    clock,
    log,
    blockBytes: 65536,
    coding,
    send: async (_, message) => {
      if (message.type === "manifest") manifests.push(message);
      return Promise.resolve(true);
    },
  });
  const childId = source.leaves[0]?.tensor as Hash;
  const want: Want = {
    type: "want",
    reason: "tensors",
    versionId: child.versionId,
    transfer: "ab".repeat(8),
    objects: [],
    bases: [],
    blockBytes: 65536,
    part: 0,
    parts: 1,
    more: false,
    tensorIndices: [0],
    codec,
    references: [base.versionId],
  };
  return {
    files,
    coding,
    uploads,
    want,
    refs: [{ kind: "tensor", id: childId, byteLength: body.bytes.length }],
    logged,
    manifests,
    childId,
  };
}

const firstPart = (transfer: string): BlockRequest => ({
  type: "blockRequest",
  transfer,
  blocks: [],
  manifestParts: [0],
});
/** Begins the upload and returns the manifest that is sent once the stream is ready. */
async function manifest({ uploads, manifests, want }: SavedChild, asked: Want = want): Promise<ManifestPart> {
  await uploads.begin(asked);
  assert.equal(
    uploads.onRequest(firstPart(asked.transfer)),
    true,
    "a request that comes while it is coded is kept",
  );
  while (manifests.length === 0) await turn();
  return manifests[0] as ManifestPart;
}

describe("coding an upload", () => {
  it("answers requests that arrived while coding, from a file that is removed when the transfer ends", async () => {
    const saved = await savedChild();
    const { encodings, byteLength } = await manifest(saved);
    assert.ok(byteLength < 0.7 * 512_000 && encodings[0]?.against !== undefined);
    assert.deepEqual(await saved.files.list("/transfers"), [`${saved.want.transfer}.coded`]);
    assert.equal(saved.uploads.progress()[0]?.byteLength, byteLength);
    await saved.uploads.end(saved.want.transfer);
    assert.deepEqual(await saved.files.list("/transfers"), []);
  });

  it("is not repeated for the same want, and is given up if the server has part of the raw stream", async () => {
    const saved = await savedChild();
    const { byteLength } = await manifest(saved);
    await saved.uploads.begin({ ...saved.want, streamBytes: byteLength });
    await saved.uploads.begin(saved.want);
    assert.equal(saved.logged.filter(([event]) => event === "coded").length, 1);
    // A server that has a part of the raw stream continues with the raw stream.
    saved.manifests.length = 0;
    assert.equal((await manifest(saved, { ...saved.want, streamBytes: 512_000 })).byteLength, 512_000);
    assert.deepEqual(await saved.files.list("/transfers"), []);
    await saved.uploads.stop();
  });

  it("gives the same stream in another process, which has decided nothing yet", async () => {
    const first = await manifest(await savedChild());
    const again = await savedChild({ mode: "auto" });
    const second = await manifest(again, { ...again.want, streamBytes: first.byteLength });
    assert.deepEqual(
      [second.byteLength, second.blockHashes, second.encodings],
      [first.byteLength, first.blockHashes, first.encodings],
    );
    await again.uploads.stop();
  });

  it("has low-rank predictions on a metered link to a server that decodes them, the same in every process", async () => {
    const codeOf = async (metered: boolean, codec: number): Promise<number | undefined> => {
      const saved = await savedChild({ metered, codec });
      const { encodings } = await manifest(saved);
      await saved.uploads.stop();
      return encodings[0]?.code;
    };
    assert.equal(await codeOf(true, 2), encodingCodes.lowRank);
    assert.notEqual(await codeOf(true, 1), encodingCodes.lowRank);
    assert.notEqual(await codeOf(false, 2), encodingCodes.lowRank);
    const first = await manifest(await savedChild({ metered: true, codec: 2 }));
    const again = await savedChild({ metered: true, codec: 2 });
    const second = await manifest(again, { ...again.want, streamBytes: first.byteLength });
    assert.deepEqual([second.byteLength, second.blockHashes], [first.byteLength, first.blockHashes]);
    await again.uploads.stop();
  });

  it("ends with the transfer, and leaves nothing", async () => {
    const saved = await savedChild();
    await saved.uploads.begin(saved.want);
    await saved.uploads.end(saved.want.transfer);
    await saved.uploads.stop();
    assert.deepEqual(saved.uploads.progress(), []);
    assert.deepEqual(await saved.files.list("/transfers"), []);
    assert.equal(saved.uploads.onRequest(firstPart(saved.want.transfer)), false);
  });

  it("is skipped if the disk has no space, the server does not decode, or the profile forbids it; the upload is raw", async () => {
    const full = await savedChild({ hasSpace: false });
    assert.deepEqual((await manifest(full)).encodings, []);
    assert.equal(
      full.logged.find(([event]) => event === "upload-not-coded")?.[1]["code"],
      "DISK_BUDGET_EXHAUSTED",
    );
    for (const [saved, want] of [
      [await savedChild(), { codec: 0 }],
      [await savedChild({ mode: "never" }), {}],
      [await savedChild(), { reason: "raw" as const, codec: 0, references: [] }],
    ] as const) {
      assert.deepEqual((await manifest(saved, { ...saved.want, ...want })).encodings, []);
      assert.equal(
        saved.logged.some(([event]) => event === "coded"),
        false,
      );
    }
  });

  it("uses no base if the base was forgotten here", async () => {
    const saved = await savedChild();
    const { encodings } = await manifest(saved, { ...saved.want, references: ["cd".repeat(32) as Hash] });
    assert.deepEqual(
      encodings.map(({ code, against }) => [code > 0, against]),
      [[true, undefined]],
    );
    await saved.uploads.stop();
  });

  it("leaves no files after the next start", async () => {
    const { files } = await savedChild();
    await files.makeFolder("/transfers");
    for (const name of ["killed.coded", "download.part"])
      await (await files.open(`/transfers/${name}`, "create")).close();
    await UploadCoding.clear(files, "/transfers");
    assert.deepEqual(await files.list("/transfers"), ["download.part"]);
  });
});
