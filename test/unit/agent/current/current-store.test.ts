/**
 * The device's published models: folders are complete or absent, a switch is one atomic step, and replaced
 * versions stay for their readers.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { CurrentStore, replacedStaysMs } from "../../../../agent/current/current-store.js";
import { readCurrent } from "../../../../agent/current/read-current.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { manualClock, type ManualClock } from "../../../helpers/manual-clock.js";

const version = (number: number): Hash => sha256(`v${number}`);
const files = nodeFiles();

interface Made {
  readonly home: string;
  readonly clock: ManualClock;
  readonly store: CurrentStore;
  readonly put: (number: number) => Promise<void>;
}
async function make(t: TestContext): Promise<Made> {
  const home = await mkdtemp(join(tmpdir(), "stemma-current-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const clock = manualClock();
  const store = await CurrentStore.open(files, home, clock);
  const put = (number: number): Promise<void> =>
    store.install({ versionId: version(number), name: "m", contentId: version(100), root: version(200) }, [
      { name: "model.safetensors", chunks: [new Uint8Array([number]), new Uint8Array(1000).fill(number)] },
    ]);
  return { home, clock, store, put };
}

describe("current models", () => {
  it("gives readers complete versions, checked against their manifest", async (t) => {
    const { home, store, put } = await make(t);
    await assert.rejects(readCurrent(home, "cam"), { code: "ENOENT" });
    await put(1);
    await store.activate("cam", version(1));
    const current = await readCurrent(home, "cam");
    assert.equal(current.manifest.versionId, version(1));
    assert.deepEqual((await current.read("model.safetensors")).length, 1001);
    await assert.rejects(current.read("other"), { code: "SLOT_CORRUPT" });
  });

  it("keeps reading the version it resolved when the line switches", async (t) => {
    const { home, store, put } = await make(t);
    await put(1);
    await put(2);
    await store.activate("cam", version(1));
    const before = await readCurrent(home, "cam");
    await store.activate("cam", version(2));
    assert.equal((await before.read("model.safetensors"))[0], 1);
    assert.equal((await (await readCurrent(home, "cam")).read("model.safetensors"))[0], 2);
  });

  it("detects a damaged file, and requires a new installation", async (t) => {
    const { home, store, put } = await make(t);
    await put(1);
    await store.activate("cam", version(1));
    assert.equal(await store.isSound(version(1)), true);
    const file = await files.open(join(store.folderOf(version(1)), "model.safetensors"), "update");
    await file.write(new Uint8Array([9]), 500);
    await file.close();
    await assert.rejects(async () => (await readCurrent(home, "cam")).read("model.safetensors"), {
      code: "SLOT_CORRUPT",
    });
    assert.equal(await store.isSound(version(1)), false, "of the right size, with another byte");
    const short = await files.open(join(store.folderOf(version(1)), "model.safetensors"), "update");
    await short.truncate(10);
    await short.close();
    assert.equal(await store.isSound(version(1)), false);
  });

  it("refuses to switch to what is not installed", async (t) => {
    const { store } = await make(t);
    await assert.rejects(store.activate("cam", version(1)), (error) => isStemmaError(error, "SLOT_CORRUPT"));
  });

  it("keeps replaced versions for ten minutes, and versions named by the caller longer", async (t) => {
    const { store, put, clock } = await make(t);
    for (const number of [1, 2, 3]) {
      await put(number);
      await store.activate("cam", version(number));
    }
    clock.advance(replacedStaysMs - 1);
    assert.deepEqual(await store.sweep(new Set()), []);
    clock.advance(1);
    assert.deepEqual(await store.sweep(new Set([version(2)])), [version(1)]);
    clock.advance(replacedStaysMs);
    assert.deepEqual(await store.sweep(new Set()), [version(2)]);
    assert.equal(await store.has(version(3)), true, "the running one never goes");
  });

  it("restarts the ten minutes after a restart, because it does not know when the version was replaced", async (t) => {
    const { home, put, store, clock } = await make(t);
    for (const number of [1, 2]) {
      await put(number);
      await store.activate("cam", version(number));
    }
    clock.advance(replacedStaysMs);
    const again = await CurrentStore.open(files, home, clock);
    assert.deepEqual(await again.sweep(new Set()), []);
    clock.advance(replacedStaysMs);
    assert.deepEqual(await again.sweep(new Set()), [version(1)]);
  });

  it("removes what an interrupted installation left", async (t) => {
    const { home, store, clock } = await make(t);
    const powerFailure = new Error("the power went");
    const broken = store.install(
      { versionId: version(1), name: "m", contentId: version(1), root: version(1) },
      [
        {
          name: "model.safetensors",
          chunks: (function* () {
            yield new Uint8Array(10);
            throw powerFailure;
          })(),
        },
      ],
    );
    await assert.rejects(broken, (error) => error === powerFailure);
    assert.equal(await store.has(version(1)), false);
    await CurrentStore.open(files, home, clock);
    assert.deepEqual(await files.list(join(home, "versions")), []);
  });
});
