/** What a server holds in memory of models that it proves and sends: a few MiB of each, whatever their size. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fetchedStream } from "../../../../server/ingest/fetched-stream.js";
import { openHome } from "../../../../server/repository/home.js";
import { openRepository } from "../../../../server/repository/open-repository.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

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

describe("the memory of a server that many devices use", () => {
  it("takes 16 MiB and one tensor to prove a model of 120 MiB", async () => {
    let reading = 0;
    let most = 0;
    const objects = new Proxy(repository.objects, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (name !== "openTensor")
          return typeof member === "function" ? (member.bind(target) as unknown) : member;
        return (...args: Parameters<typeof target.openTensor>) => {
          const source = target.openTensor(...args);
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
        };
      },
    });
    await recoverModel(objects, summary.versionId, clock, { holdBytes: 0, fromDisk: true });
    assert.ok(most > 0 && most <= 16 * MiB + tensorBytes, `${most / MiB} MiB`);
  });

  it("takes pieces of half a MiB of a tensor that a device fetches", async () => {
    const [leaf] = await repository.leaves(summary.versionId);
    const ref = { kind: "tensor" as const, id: leaf!.tensor, byteLength: tensorBytes };
    const { objects } = await fetchedStream(repository, summary, [ref], false);
    const lengths: number[] = [];
    for await (const piece of objects[0]!.chunks()) lengths.push(piece.length);
    assert.equal(
      lengths.reduce((sum, length) => sum + length, 0),
      tensorBytes,
    );
    assert.ok(Math.max(...lengths) <= MiB / 2, String(Math.max(...lengths)));
  });
});
