/** An exported file carries how its model was made; another server checks it, keeps it and replays it. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../server/api/server-operations.js";
import type { ImportReport } from "../../../../server/api/version-schemas.js";
import { openFleets, type OpenFleets } from "../../../../server/context/open-fleets.js";
import { localOperations } from "../../../../server/operations/local-operations.js";
import type { FleetRepository } from "../../../../server/repository/fleet-repository.js";
import type { Home } from "../../../../server/repository/home.js";
import { openNodeHome } from "../../../../server/repository/node-home.js";
import { decodeStory, storyKey } from "../../../../shared/provenance/exported-story.js";

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

  it("leaves out what was redacted, and replaying it is refused with the reason", async () => {
    await trained.operations.redact({ fleet, model: "soh:2" });
    const redacted = await exportFile(trained, "soh:2");
    assert.deepEqual(decodeStory(storyOf(redacted)).opened.openings, {});
    await importFile(other, redacted, { name: "redacted" });
    assert.equal((await other.operations.replay({ fleet, model: "redacted" })).reason, "redacted");
  });
});
