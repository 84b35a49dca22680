/** An import reads a file of this machine in place, and never saves one that changes meanwhile. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ImportStream, LocalFile } from "../../../../server/interface/api/server-operations.js";
import type { ImportReport } from "../../../../server/interface/api/models/import-schemas.js";
import { openFleets } from "../../../../server/services/context/open-fleets.js";
import { importModel } from "../../../../server/operations/models/import-model.js";
import { openHome } from "../../../../server/storage/repository/home.js";
import type { Files } from "../../../../shared/ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { fileOf } from "../../../integration/server/interface/http/http-requests.js";

const path = "/models/a.safetensors";

/** A home in memory next to a model file; `onRead` runs before every read of that file. */
async function worldWith(onRead: () => void = () => undefined): Promise<{
  readonly run: (stream?: Partial<ImportStream>, dryRun?: boolean) => Promise<ImportReport>;
  readonly versions: () => Promise<number>;
  readonly created: readonly string[];
  readonly change: (bytes: Uint8Array, position: number) => Promise<void>;
}> {
  let nowMs = 1;
  const inner = memoryFiles({ now: () => nowMs++ });
  const created: string[] = [];
  const files: Files = {
    ...inner,
    open: async (name, mode) => {
      if (mode === "create" && name.includes("import-")) created.push(name);
      const file = await inner.open(name, mode);
      return name !== path
        ? file
        : {
            read: (target, position) => {
              onRead();
              return file.read(target, position);
            },
            write: (bytes, position) => file.write(bytes, position),
            size: () => file.size(),
            truncate: (size) => file.truncate(size),
            sync: () => file.sync(),
            close: () => file.close(),
          };
    },
  };
  const change = async (bytes: Uint8Array, position: number): Promise<void> => {
    const file = await inner.open(path, "append");
    await file.write(bytes, position);
    await file.close();
  };
  await inner.makeFolder("/models");
  await inner.makeFolder("/home");
  await change(await fileOf({ a: noiseBytes(5_000, 1), b: noiseBytes(5_000, 2) }), 0);
  const home = await openHome("/home", { files, clock: manualClock(), random: seededRandom(1) });
  const fleets = openFleets(home);
  const stat = await inner.stat(path);
  assert.ok(stat !== undefined);
  const localFile: LocalFile = { path, size: stat.size, modifiedMs: stat.modifiedMs };
  const noStream: ImportStream["chunks"] = {
    [Symbol.asyncIterator]: () => assert.fail("the file was streamed"),
  };
  return {
    run: (stream, dryRun = false) =>
      importModel(
        { home, fleets, version: "1" },
        { byteLength: stat.size, chunks: noStream, localFile, ...stream },
        { fleet: "f", name: "m", fileName: path, dryRun },
      ),
    versions: async () => (await fleets.get("f", { create: true })).versions().length,
    created,
    change,
  };
}

describe("an import of a file of this machine", () => {
  it("reads it in place: nothing is streamed or copied", async () => {
    const world = await worldWith();
    assert.equal((await world.run()).tensors, 2);
    assert.equal((await world.run(undefined, true)).unchanged, false);
    assert.deepEqual([await world.versions(), world.created], [1, []]);
  });

  it("fails where the file changes at any read, and saves nothing", async () => {
    let total = 0;
    await (await worldWith(() => total++)).run();
    assert.ok(total > 2);
    for (let at = 0; at < total; at++) {
      let reads = 0;
      let changed: Promise<void> | undefined;
      const world = await worldWith(() => {
        if (reads++ === at) changed = world.change(Uint8Array.of(1, 2, 3, 4), 9_000);
      });
      await assert.rejects(world.run(), { code: "FILE_CHANGED" });
      await changed;
      assert.equal(await world.versions(), 0, `changed before read ${at}`);
    }
  });

  it("names the file if it is not a model, and reports that it was cut short", async () => {
    const world = await worldWith();
    const short = await fileOf({ a: noiseBytes(50, 1) });
    await assert.rejects(
      world.run({ localFile: undefined, byteLength: -1, chunks: chunksOf(short.subarray(0, -1)) }),
      (error: Error & { code?: string }) =>
        error.code === "SAFETENSORS_TRUNCATED" && error.message.includes(path),
    );
  });

  it("refuses a path that is not the file that the client named, so that it is sent", async () => {
    const world = await worldWith();
    const stat = { path, size: 10, modifiedMs: 5 };
    for (const localFile of [
      stat,
      { ...stat, path: "/models/none" },
      { ...stat, path: "a.safetensors" },
      { ...stat, path: "/models" },
    ])
      await assert.rejects(world.run({ localFile }), { code: "FILE_NOT_SHARED" });
  });
});

async function* chunksOf(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  await Promise.resolve();
  yield bytes;
}
