/** An exported file carries how its model was made; another server checks it, keeps it and replays it. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import type { ImportReport } from "../../../../../server/interface/api/models/import-schemas.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { readOpenedProvenance } from "../../../../../server/services/context/opened-provenance.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import type { Provenance } from "../../../../../shared/provenance/provenance.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import { sha256, tensorIdOfSource } from "../../../../../shared/tensor/hash.js";
import { fileOfBytes, readSafetensors } from "../../../../../shared/tensor/safetensors-reader.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { copiedTensors } from "../../../../helpers/copied-tensors.js";
import { decodeStory, storyKey } from "../../../../../shared/provenance/exported-story.js";

const fleet = "cars";

interface Server {
  readonly home: Home;
  readonly fleets: OpenFleets;
  readonly operations: ServerOperations;
  readonly repository: FleetRepository;
}

async function openServer(path: string): Promise<Server> {
  const home = await openNodeHome(path);
  const fleets = openFleets(home);
  const operations = localOperations({ home, fleets, version: "test" });
  return { home, fleets, operations, repository: await fleets.get(fleet, { create: true }) };
}

async function exportFile({ operations }: Server, model: string, story?: "omit"): Promise<Buffer> {
  const stream = await operations.recover({ fleet, model, ...(story === undefined ? {} : { story }) });
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream.chunks) chunks.push(chunk);
  await stream.report;
  return Buffer.concat(chunks);
}

function importFile(
  { operations }: Server,
  file: Buffer,
  options: { readonly name: string; readonly base?: string; readonly story?: "ignore" },
): Promise<ImportReport> {
  return operations.import({ byteLength: file.length, chunks: Readable.from([file]) }, { fleet, ...options });
}

async function tensorsOf(file: Buffer): Promise<{ name: string; id: Hash }[]> {
  const opened = await readSafetensors(fileOfBytes(file), "the file");
  return Promise.all(
    opened.tensors.map(async (entry) => ({
      name: entry.name,
      id: await tensorIdOfSource(opened.source(entry)),
    })),
  );
}

type Header = Record<string, Record<string, string>>;

function headerOf(file: Buffer): { header: Header; data: Buffer } {
  const length = Number(file.readBigUInt64LE(0));
  return {
    header: JSON.parse(file.toString("utf8", 8, 8 + length)) as Header,
    data: file.subarray(8 + length),
  };
}

function storyOf(file: Buffer): string {
  return headerOf(file).header["__metadata__"]?.[storyKey] ?? "";
}

/** The file with another story. */
function withStory(file: Buffer, story: string): Buffer {
  const { header, data } = headerOf(file);
  const text = Buffer.from(JSON.stringify({ ...header, __metadata__: { [storyKey]: story } }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, data]);
}

describe("the story in an exported file", () => {
  let path: string;
  let trained: Server;
  let other: Server;
  let file: Buffer;
  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-story-"));
    trained = await openServer(join(path, "a"));
    other = await openServer(join(path, "b"));
    const { operations } = trained;
    const data = { fleet, name: "cells", kind: "battery-simulated", location: "" };
    await operations.addDataset({ ...data, parameters: { vehicle: 1 } });
    const training = { fleet, recipe: "battery-soh", data: "cells", name: "soh", parameters: { epochs: 1 } };
    await operations.train({ ...training, seed: "7" });
    await operations.train({ ...training, seed: "8", base: "soh:1" });
    file = await exportFile(trained, "soh:2");
  });
  after(async () => {
    for (const { fleets, home } of [trained, other]) {
      await fleets.close();
      await home.close();
    }
    await rm(path, { recursive: true, force: true });
  });

  /** The second model with another tensor, or another provenance. */
  async function saveLie(
    name: string,
    { flipped, plain = {} }: { readonly flipped?: number; readonly plain?: Partial<Provenance> },
  ): Promise<string> {
    const { repository, home } = trained;
    const truth = repository.resolve("soh:2");
    const model = await repository.recover(truth.versionId);
    const opened = (await readOpenedProvenance(repository, truth.record.objects))!;
    const members = Object.entries(opened.openings).map(([member, { value }]) => [member, value] as const);
    const tensors = await copiedTensors(model.sources, flipped);
    const { committed: _, ...shared } = opened.provenance;
    const committed = Object.fromEntries(
      members.filter(([member]) => plain.data === undefined || member !== "data"),
    );
    await repository.save(modelSourceOfTensors(model.architecture!, tensors, model.names), {
      name,
      bases: truth.record.bases,
      ...makeProvenance({ ...shared, ...plain }, committed, home.ports.random),
      metadata: { ...(await trained.operations.model({ fleet, model: "soh:2" })).metadata },
    });
    return `${name}:1`;
  }

  it("is there whole, and can be left out", async () => {
    const story = decodeStory(storyOf(file));
    const original = trained.repository.resolve("soh:2");
    assert.equal(story.versionId, original.versionId);
    assert.deepEqual([...story.bases.keys()], original.record.bases);
    assert.ok("parameters" in story.opened.openings && "random" in story.opened.openings);
    const plain = await exportFile(trained, "soh:2", "omit");
    assert.equal(storyOf(plain), "");
    assert.deepEqual(headerOf(plain).data, headerOf(file).data);
  });

  it("is kept by another server, which finds the base by its content and exports the story again", async () => {
    const { operations, repository } = other;
    await importFile(other, await exportFile(trained, "soh:1"), { name: "first" });
    const { summary, story } = await importFile(other, file, { name: "second" });
    const original = trained.repository.resolve("soh:2");
    assert.deepEqual(story, {
      versionId: original.versionId,
      fleet,
      name: "soh",
      device: original.record.device,
    });
    assert.equal(summary?.record.contentId, original.record.contentId);
    assert.deepEqual(summary.record.bases, [repository.resolve("first").versionId]);
    const [before, now] = await Promise.all([
      trained.operations.model({ fleet, model: "soh:2" }),
      operations.model({ fleet, model: "second" }),
    ]);
    assert.deepEqual(now.provenance, before.provenance);
    const again = await exportFile(other, "second");
    assert.deepEqual([...decodeStory(storyOf(again)).bases.keys()], original.record.bases);
    const { verdict, grade } = await operations.replay({ fleet, model: "second" });
    assert.deepEqual([verdict, grade], ["proved", "bit-exact"]);
  });

  it("is refused where it is of other tensors, or something in it was changed; never without being asked", async () => {
    const flipped = Buffer.from(file);
    flipped[flipped.length - 1]! ^= 1;
    await assert.rejects(importFile(other, flipped, { name: "x" }), { code: "STORY_MISMATCH" });
    const ofFirst = storyOf(await exportFile(trained, "soh:1"));
    await assert.rejects(importFile(other, withStory(file, ofFirst), { name: "x" }), {
      code: "STORY_MISMATCH",
    });
    await assert.rejects(importFile(other, file, { name: "x", base: "second" }), { code: "STORY_MISMATCH" });
    type Story = Record<string, Record<string, unknown>>;
    const changed = (change: (story: Story) => void): Buffer => {
      const story = JSON.parse(storyOf(file)) as Story;
      change(story);
      return withStory(file, JSON.stringify(story));
    };
    for (const change of [
      (story: Story) => (story["openings"]!["openings"] = {}),
      (story: Story) => (story["record"]!["root"] = "x"),
      (story: Story) => (story["provenance"]!["exactness"] = "native"),
      (story: Story) => (story["environment"]!["fields"] = {}),
      (story: Story) => (story["bases"] = [story["record"]] as never),
      (story: Story) => (story["more"] = {}),
      (story: Story) => delete story["provenance"],
    ])
      await assert.rejects(importFile(other, changed(change), { name: "x" }), { code: "STORY_INVALID" });
    await assert.rejects(importFile(other, withStory(file, "{"), { name: "x" }), { code: "STORY_INVALID" });
    assert.deepEqual(other.repository.versions({ name: "x" }), []);
    const { story } = await importFile(other, flipped, { name: "x", story: "ignore" });
    assert.equal(story, undefined);
  });

  it("is replayed from the file, or from the record alone, where the model is not known", async () => {
    const { operations, repository } = other;
    const proved = await operations.replayStory({
      fleet,
      story: storyOf(file),
      tensors: await tensorsOf(file),
    });
    assert.deepEqual([proved.verdict, proved.grade, proved.version], ["proved", "bit-exact", 0]);
    const { story } = await trained.operations.story({ fleet, model: "soh:1" });
    assert.equal((await operations.replayStory({ fleet, story })).verdict, "proved");
    assert.equal(repository.get(proved.versionId), undefined);
  });

  it("is refuted where it gives another model, and says what is missing", async () => {
    const { operations } = other;
    const lie = await saveLie("lie", { flipped: 3 });
    const exported = await exportFile(trained, lie);
    const refuted = await operations.replayStory({
      fleet,
      story: storyOf(exported),
      tensors: await tensorsOf(exported),
    });
    const { leaves } = await trained.operations.model({ fleet, model: lie });
    assert.deepEqual([refuted.verdict, refuted.grade], ["refuted", "execution-exact"]);
    assert.deepEqual(refuted.difference, { tensors: 1, first: leaves[3]?.name });
    const changed = (await tensorsOf(exported)).toReversed();
    await assert.rejects(operations.replayStory({ fleet, story: storyOf(exported), tensors: changed }), {
      code: "STORY_MISMATCH",
    });
    for (const [reason, plain] of [
      ["data-missing", { data: [sha256("unknown")] }],
      ["base-missing", { bases: [sha256("unknown")] }],
      ["engine-missing", { engine: sha256("unknown") }],
    ] as const) {
      const { story } = await trained.operations.story({ fleet, model: await saveLie(reason, { plain }) });
      const ended = await operations.replayStory({ fleet, story });
      assert.deepEqual([ended.verdict, ended.reason], ["unreplayable", reason], ended.text);
    }
  });

  it("leaves out what was redacted, and replaying it is refused with the reason", async () => {
    const storyHash = async (): Promise<string | undefined> =>
      (await trained.operations.recover({ fleet, model: "soh:2" })).expected.story;
    const before = await storyHash();
    await trained.operations.redact({ fleet, model: "soh:2" });
    assert.ok(before !== undefined && before !== (await storyHash()), "a cache must not give the old file");
    const redacted = await exportFile(trained, "soh:2");
    assert.deepEqual(decodeStory(storyOf(redacted)).opened.openings, {});
    await importFile(other, redacted, { name: "redacted" });
    assert.equal((await other.operations.replay({ fleet, model: "redacted" })).reason, "redacted");
  });
});
