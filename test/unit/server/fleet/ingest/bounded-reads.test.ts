/** What a server holds in memory of models that it proves and sends: a few MiB of each, whatever their size. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fetchedStream } from "../../../../../server/fleet/ingest/downloads/fetched-stream.js";
import { SharedTensors } from "../../../../../server/fleet/ingest/downloads/shared-tensors.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import type { ObjectReader, StoredTensorSource } from "../../../../../shared/objects/object-store.js";
import { openPackStore } from "../../../../../shared/objects/pack-store.js";
import { recoverModel } from "../../../../../shared/recover/recover-model.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import { StreamReader } from "../../../../../shared/wire/transfer/stream.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../../../../helpers/coded-tensors.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

const MiB = 1024 * 1024;
const random = seededRandom("bounded reads");
const clock = manualClock();
const repository = await openRepository(
  await openHome("/home", {
    files: memoryFiles(),
    clock,
    random,
    environment: { backend: "none", stemma: "test" },
  }),
  "fleet-a",
);
const tensorBytes = 5 * MiB;
const tensors = Array.from({ length: 24 }, (_, i) => ({
  name: `t${i}`,
  dtype: "U8" as const,
  shape: [tensorBytes],
  bytes: Buffer.alloc(tensorBytes, random.bytes(64)),
}));
const { summary } = await repository.save(opaqueModelSource(tensors), { name: "m" });

/** The store of the repository, with other sources of its tensors. */
const storeWith = (change: (source: StoredTensorSource) => StoredTensorSource): ObjectReader =>
  new Proxy(repository.objects, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (name === "openTensor")
        return (...args: Parameters<typeof target.openTensor>) => change(target.openTensor(...args));
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });

describe("the memory of a server that many devices use", () => {
  it("takes 16 MiB and one tensor to prove a model of 120 MiB", async () => {
    let reading = 0;
    let most = 0;
    const objects = storeWith(({ readAt: _, ...source }) => {
      const readAll = async (): Promise<Uint8Array | undefined> => {
        reading += source.byteLength;
        most = Math.max(most, reading);
        const bytes = await source.readAll();
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        reading -= source.byteLength;
        return bytes;
      };
      return { ...source, readAll };
    });
    await recoverModel(objects, summary.versionId, clock, { holdBytes: 0, fromDisk: true });
    assert.ok(most > 0 && most <= 16 * MiB + tensorBytes, `${most / MiB} MiB`);
  });

  it("reads tensors that are stored raw, to prove them, into buffers that it uses again", async () => {
    const buffers = new Set<unknown>();
    const read = { bytes: 0, all: 0 };
    const objects = storeWith((source) => ({
      ...source,
      readAt: (offset, target) => {
        buffers.add(target.buffer);
        read.bytes += target.length;
        return source.readAt?.(offset, target) ?? Promise.resolve(false);
      },
      readAll: () => {
        read.all++;
        return source.readAll();
      },
    }));
    for (let times = 0; times < 3; times++)
      await recoverModel(objects, summary.versionId, clock, { holdBytes: 0, fromDisk: true });
    const distinct = new Set(tensors.map(({ bytes }) => bytes.toString("base64"))).size;
    assert.deepEqual(read, { bytes: 3 * distinct * tensorBytes, all: 0 });
    assert.ok(buffers.size <= 8, String(buffers.size));
  });

  it("takes the blocks alone of a tensor that a device fetches", async () => {
    const [leaf] = await repository.leaves(summary.versionId);
    const ref = { kind: "tensor" as const, id: leaf!.tensor, byteLength: tensorBytes };
    const from = { repository, tensors: new SharedTensors(repository.objects) };
    const { objects } = await fetchedStream(from, summary, [ref], false);
    const block = new Uint8Array(1000);
    assert.equal(await objects[0]!.readAt?.(3 * MiB, block), true);
    assert.deepEqual(block, new Uint8Array(tensors[0]!.bytes.subarray(3 * MiB, 3 * MiB + 1000)));
    const lengths: number[] = [];
    for await (const piece of objects[0]!.chunks()) lengths.push(piece.length);
    assert.equal(
      lengths.reduce((sum, length) => sum + length, 0),
      tensorBytes,
    );
    assert.ok(Math.max(...lengths) <= MiB / 2, String(Math.max(...lengths)));
  });

  it("decodes a tensor that is stored coded once for all devices that are in the middle of it", async () => {
    const [base, next] = [memberOf(5, 0, [4, 1000]), memberOf(5, 1, [4, 1000])];
    const objects = await openPackStore(memoryFiles(), "/packs", { clock, random });
    await writePack(objects, [base]);
    await writePack(objects, [codedAgainst(next, base)]);
    const id = idOfTensor(next);
    assert.equal(objects.encodingOf(id)?.base, idOfTensor(base));
    let decoded = 0;
    const shared = new SharedTensors({
      encodingOf: (one) => objects.encodingOf(one),
      openTensor: (...args) => {
        const source = objects.openTensor(...args);
        const readAll = (): Promise<Uint8Array | undefined> => {
          decoded++;
          return source.readAll();
        };
        return { ...source, readAll };
      },
    });
    const readers = Array.from({ length: 10 }, () => new StreamReader([shared.open(id)]));
    const target = new Uint8Array(1000);
    for (let at = 0; at < next.bytes.length; at += target.length)
      for (const reader of readers) {
        await reader.read(at, target);
        assert.deepEqual(target, next.bytes.subarray(at, at + target.length));
      }
    assert.equal(decoded, 1);
    // All have left it.
    await readers[0]!.read(0, target);
    assert.equal(decoded, 2);
    await readers[0]!.close();
    await readers[1]!.read(0, target);
    assert.equal(decoded, 3);
  });
});
