/** Which input pipeline is installed beside a version. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pipelineFile, type PipelineSources } from "../../../../agent/lines/pipeline-file.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { encodeSaveRecord } from "../../../../shared/model/save-record.js";
import { makeProvenance } from "../../../../shared/provenance/make-provenance.js";
import { recordedPipeline } from "../../../../shared/provenance/recorded-pipeline.js";
import { openProvenance } from "../../../../shared/provenance/openings.js";
import { objectId, sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { vectors } from "../../shared/model/vectors.js";

const base = sha256("base");
const version = sha256("version");
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

const cycles = {
  reader: "battery-simulated",
  columns: [{ name: "meanVoltage", role: "input" }],
  transformations: ["meanVoltage → (meanVoltage − 3.5) × 2", "windows of 4 cycles"],
};

const [golden] = vectors<{ record: SaveRecord }[]>("save-records-2.json") as [{ record: SaveRecord }];
const recordBytes = (bases: readonly Hash[], objects: Partial<SaveRecord["objects"]> = {}): Uint8Array =>
  encodeSaveRecord({ ...golden.record, bases, objects: { ...golden.record.objects, ...objects } });

type Entry = ReturnType<PipelineSources["entry"]>;

/** The sources of a device, of which a test changes what it is about. */
class Device {
  readonly stored = new Map<Hash, Uint8Array>();
  readonly entries = new Map<Hash, Entry>([[version, { origin: "trained" }]]);
  /** The pipelines of installed versions. */
  readonly installed = new Map<Hash, string>();
  before: string | undefined;

  put(kind: Parameters<typeof objectId>[0], bytes: Uint8Array): Hash {
    const id = objectId(kind, bytes);
    this.stored.set(id, bytes);
    return id;
  }

  /** Stores what a training on data with this description leaves beside its record. */
  trained(description: unknown, from: Hash = base) {
    const made = makeProvenance(
      {
        engine: undefined,
        recipe: undefined,
        exactness: "none",
        bases: [from],
        data: [sha256("data")],
        environment: objectId("environment", new Uint8Array()),
      },
      { data: [description] } as never,
      { bytes: (count) => new Uint8Array(count).fill(7) },
    );
    const provenance = this.put("provenance", made.provenance);
    const openings = this.put("openings", made.openings);
    const objects = { provenance, openings };
    return { made, objects, record: { bases: [from], objects } as never };
  }

  async fileOf(record: Parameters<typeof pipelineFile>[2]): Promise<string | undefined> {
    const sources: PipelineSources = {
      objects: {
        has: (id) => this.stored.has(id),
        read: (_, id) => Promise.resolve(this.stored.get(id) ?? assert.fail()),
      },
      current: {
        fileOf: (versionId, name) => {
          const text = name === "pipeline.json" ? this.installed.get(versionId) : undefined;
          return Promise.resolve(text === undefined ? undefined : bytesOf(text));
        },
      },
      entry: (id) => this.entries.get(id),
      before: this.before === undefined ? undefined : bytesOf(this.before),
    };
    const [file] = await pipelineFile(sources, version, record);
    if (file === undefined) return undefined;
    assert.equal(file.name, "pipeline.json");
    return Buffer.concat([...(file.chunks as Iterable<Uint8Array>)]).toString("utf8");
  }
}

describe("the input pipeline beside a version", () => {
  it("is what its offer brought, of a version from the server", async () => {
    const device = new Device();
    const { record } = device.trained(cycles);
    const pipeline = objectId("pipeline", bytesOf("{}\n"));
    device.entries.set(version, { origin: "adopted", pipeline });
    assert.equal(await device.fileOf(record), undefined, "not here");
    device.put("pipeline", bytesOf("{}\n"));
    assert.equal(await device.fileOf(record), "{}\n");
    device.entries.set(version, { origin: "adopted" });
    assert.equal(await device.fileOf(record), undefined, "it came without one");
  });

  it("is what its own record describes, of a version that the device trained", async () => {
    const device = new Device();
    const { record, made } = device.trained(cycles);
    device.installed.set(base, "of the base");
    const recorded = recordedPipeline(openProvenance(made.provenance, made.openings));
    const text = Buffer.from(recorded?.bytes ?? []).toString("utf8");
    assert.match(text, /"stemma-windows"/);
    assert.equal(await device.fileOf(record), text);
  });

  it("is its base's where the application gave the samples, also when it is installed again", async () => {
    const device = new Device();
    const { record } = device.trained({ reader: "samples" });
    device.installed.set(base, "of the base");
    assert.equal(await device.fileOf(record), "of the base");
    device.installed.clear();
    assert.equal(await device.fileOf(record), undefined);
    device.before = "kept";
    assert.equal(await device.fileOf(record), "kept");
  });

  it("is found where fine-tunes in between were never installed, or their folders are gone", async () => {
    const device = new Device();
    const given = device.put("pipeline", bytesOf("given"));
    const adopted = device.put("record", recordBytes([]));
    device.entries.set(adopted, { origin: "adopted", pipeline: given });
    const { objects: parts } = device.trained({ reader: "samples" }, adopted);
    const between = device.put("record", recordBytes([adopted], parts));
    device.entries.set(between, { origin: "trained" });
    const { record } = device.trained({ reader: "samples" }, between);
    assert.equal(await device.fileOf(record), "given");
    device.installed.set(between, "of the one in between");
    assert.equal(await device.fileOf(record), "of the one in between");
    device.installed.clear();
    device.entries.delete(adopted);
    assert.equal(await device.fileOf(record), undefined, "the device has forgotten the base");
  });

  it("is none where nothing describes it, or a lying record would", async () => {
    const device = new Device();
    device.installed.set(base, "of the base");
    const bare = { bases: [base], objects: {} } as never;
    assert.equal(await device.fileOf(bare), undefined);
    const hostile = { toString: 1, valueOf: 1 };
    for (const description of [
      { reader: "idx" },
      { ...cycles, transformations: [hostile] },
      { reader: "image-folder", parameters: {}, transformations: [hostile] },
      { reader: hostile },
      [hostile],
      null,
    ])
      assert.equal(await device.fileOf(device.trained(description).record), undefined);
  });
});
