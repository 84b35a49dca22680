/** What a device's version names of its samples: they are sent only where the line's settings allow it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DataUsed } from "../../../../agent/saving/store-model.js";
import { dataUsedBy } from "../../../../agent/trainer/data-used.js";
import type { JobOptions } from "../../../../agent/trainer/training-job.js";
import { parseConfig } from "../../../../agent/settings/config.js";
import {
  decodeDataManifest,
  encodeDataManifest,
  type DataManifest,
} from "../../../../shared/data/data-manifest.js";
import { readData } from "../../../../shared/data/stored-data.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { loadDataset } from "../../../../shared/train/datasets/registry.js";
import { sampleSetOfBytes, sampleSetHash } from "../../../../shared/train/datasets/canonical-samples.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";

const line = "pack";
const files = memoryFiles();
const ownSamples = { reader: "samples", parameters: {} };
const range = { segments: [], newestMs: 0 } as unknown as NonNullable<
  Parameters<typeof dataUsedBy>[1]["job"]["samples"]
>;

/** `count` samples of 64 numbers. */
async function collect(folder: string, count: number): Promise<Hash> {
  const lines = Array.from({ length: count }, (_, index) => {
    const values = [...noiseBytes(64, index + 1)].map((byte) => (byte % 16) / 7);
    return JSON.stringify({ label: index / count, shape: [64], values });
  });
  await files.makeFolder(folder);
  await writeDurably(files, `${folder}/samples.jsonl`, Buffer.from(lines.join("\n")));
  return (await loadDataset({ ...ownSamples, location: folder }, files)).hash;
}

function used(folder: string, content: Hash, settings: object = { sendSamples: true }): Promise<DataUsed> {
  const options = {
    config: parseConfig({ format: 1, lines: { [line]: settings } }, "test"),
    intakes: new Map([[line, { folder }]]) as unknown as JobOptions["intakes"],
    files,
  };
  return dataUsedBy(options, { line, job: { dataset: ownSamples, samples: range }, content });
}

async function bytesOf({ objects }: DataUsed): Promise<ReadonlyMap<Hash, Uint8Array>> {
  const found = new Map<Hash, Uint8Array>();
  for (const object of objects)
    if ("source" in object && object.id !== undefined)
      for await (const bytes of object.source.chunks()) found.set(object.id, bytes);
  return found;
}

async function manifestOf(data: DataUsed): Promise<DataManifest> {
  return decodeDataManifest([...(await bytesOf(data)).values()][0] as Uint8Array);
}

test("a manifest and its chunks, which give the samples back, where the line sends them", async () => {
  const content = await collect("/few", 300);
  const data = await used("/few", content);
  const objects = await bytesOf(data);
  const manifest = await manifestOf(data);
  assert.deepEqual([manifest.kept, manifest.content, data.whyNot], ["chunks", content, undefined]);
  assert.deepEqual(new Set(manifest.chunks.map(({ id }) => id)), new Set([...objects.keys()].slice(1, -1)));
  const last = [...objects.values()].at(-1) as Uint8Array;
  assert.equal(Buffer.from(last.subarray(0, 8)).toString(), "STEMDESC");
  assert.match(Buffer.from(last).toString("utf8"), /"reader":"samples"/);
  const pieces: Uint8Array[] = [];
  const store = { read: (_kind: string, id: Hash) => Promise.resolve(objects.get(id) as Uint8Array) };
  for await (const piece of readData(store, manifest)) pieces.push(piece);
  assert.equal(sampleSetHash(sampleSetOfBytes(Buffer.concat(pieces), "test")), content);
  const total = [...objects.values()].reduce((sum, { length }) => sum + length, 0);
  assert.equal(data.bytes, total);
  assert.ok(total < manifest.byteLength / 2, `${total} of ${manifest.byteLength} bytes`);
  assert.ok(encodeDataManifest(manifest).length < 200);
});

test("only where they are kept otherwise: by settings, for a generator, and where the samples are gone", async () => {
  const content = await collect("/kept", 30);
  assert.equal((await manifestOf(await used("/kept", content, {}))).kept, "device");
  const gone = await used("/kept", sha256("other samples"));
  assert.equal((await manifestOf(gone)).kept, "device");
  assert.match(gone.whyNot ?? "", /differ/);
  const options = { config: parseConfig({ format: 1 }, "test"), intakes: new Map(), files };
  const named = (reader: string): Promise<DataUsed> =>
    dataUsedBy(options, { line, job: { dataset: { reader, parameters: {} }, samples: null }, content });
  assert.equal((await manifestOf(await named("images-generated"))).kept, "generator");
  assert.equal((await manifestOf(await named("mnist"))).kept, "device");
  assert.deepEqual((await named("none")).objects, []);
});
