/**
 * What the replay of a dropped version needs is damaged: a bit of its data, engine, story or base is flipped
 * on the disk. Then there is a typed error, and never another model; what is damaged is named by a check; and tensors
 * that are still here are not deleted.
 */
import assert from "node:assert/strict";
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import type { ObjectKind } from "../../../../../shared/model/model.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { drawn } from "../../../../helpers/test-depth.js";
import { trainedHome, withFleet } from "./dropped-fleet.js";

const fleet = "cars";

/** Where the bytes of an object begin in a pack: they are stored as they are. */
async function findInPacks(home: string, bytes: Uint8Array): Promise<{ pack: string; at: number }> {
  const folder = join(home, "fleets", fleet, "packs");
  for (const name of await readdir(folder)) {
    const at = (await readFile(join(folder, name))).indexOf(bytes);
    if (at >= 0) return { pack: join(folder, name), at };
  }
  throw new Error("the object is in no pack as it is");
}

async function flip(home: string, bytes: Uint8Array): Promise<void> {
  const { pack, at } = await findInPacks(home, bytes);
  const content = await readFile(pack);
  const byte = at + Math.floor(bytes.length / 2);
  content[byte] = (content[byte] ?? 0) ^ 0x10;
  await writeFile(pack, content);
}

interface Input {
  readonly what: string;
  readonly kind: ObjectKind | "tensor";
  readonly bytes: Uint8Array;
}

describe("damage in what a dropped version is recovered from", () => {
  let trained: Awaited<ReturnType<typeof trainedHome>>;
  /** Not collected yet; and collected. */
  let dropped: string;
  let collected: string;
  let root: Hash;
  const inputs: Input[] = [];

  before(async () => {
    trained = await trainedHome();
    await withFleet(trained.path, async ({ operations, repository }) => {
      const registered = await operations.dropTensors({ fleet });
      assert.equal(registered.dropped.length, 0, "registered files may change");
      assert.match(registered.kept[0]?.because ?? "", /data push/);
      await operations.pushDataset({ fleet, name: "table" });
      // The base keeps its tensors, so that they can be damaged, too.
      const report = await operations.dropTensors({ fleet, models: ["sums:2"] });
      assert.equal(report.dropped.length, 1, JSON.stringify(report.kept));
      const { record, dropped: needs } = repository.resolve("sums:2");
      root = record.root;
      const [leaf] = await repository.leaves(repository.resolve("sums:1").versionId);
      assert.ok(needs?.data != null && leaf !== undefined && record.objects.openings !== undefined);
      const { objects } = repository;
      const read = async (kind: ObjectKind, id: Hash): Promise<Uint8Array> => {
        const pieces: Uint8Array[] = [];
        for await (const piece of objects.openStream(kind, id).chunks()) pieces.push(piece.slice());
        return Buffer.concat(pieces).subarray(0, 4096);
      };
      inputs.push(
        { what: "its data", kind: "data", bytes: await read("data", needs.data) },
        { what: "its engine", kind: "engine", bytes: await read("engine", needs.engine) },
        { what: "its story", kind: "openings", bytes: await read("openings", record.objects.openings) },
        {
          what: "its base",
          kind: "tensor",
          bytes: (await objects.openTensor(leaf.tensor).readAll()) ?? new Uint8Array(),
        },
      );
    });
    dropped = `${trained.path}-dropped`;
    collected = `${trained.path}-collected`;
    await cp(trained.path, dropped, { recursive: true });
    await withFleet(trained.path, async ({ repository }) => {
      await repository.collect(await repository.planCollection());
    });
    await cp(trained.path, collected, { recursive: true });
  });
  after(async () => {
    await trained.remove();
  });

  async function inCopy(
    home: string,
    bytes: Uint8Array,
    work: (copy: string) => Promise<void>,
  ): Promise<void> {
    const copy = `${home}-copy`;
    await cp(home, copy, { recursive: true });
    try {
      await flip(copy, bytes);
      await work(copy);
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  }

  for (const index of drawn([0, 1, 2, 3], 2))
    it(`gives no other model, and a check finds it (${["data", "engine", "story", "base"][index]})`, async () => {
      const { bytes, what, kind } = inputs[index] as Input;
      await inCopy(collected, bytes, async (copy) => {
        await withFleet(copy, async ({ operations, repository }) => {
          const { problems, unrecoverable = [], absentEngines } = await operations.check({ fleet });
          assert.ok(absentEngines.every(({ isThisBuild }) => isThisBuild === true));
          assert.ok(problems.length > 0, `${what} is damaged, and the check found nothing`);
          assert.deepEqual(
            unrecoverable.map(({ kind: of, versions, isThisBuild }) => [
              of,
              versions.map(({ version, isDropped }) => [version, isDropped]),
              isThisBuild,
            ]),
            // The base is lost itself, and with it what only a replay from it gives.
            [
              [
                kind,
                kind === "tensor"
                  ? [
                      [1, false],
                      [2, true],
                    ]
                  : [[2, true]],
                kind === "engine" || undefined,
              ],
            ],
          );
          const { versionId } = repository.resolve("sums:2");
          // This build is that engine, so it does without the damaged archive.
          if (kind === "engine") assert.equal((await repository.recover(versionId)).verifiedRoot, root);
          else
            await assert.rejects(repository.recover(versionId), (error) => {
              assert.ok(isStemmaError(error) && error.code !== "INTERNAL", String(error));
              return true;
            });
        });
      });
    });

  it("names no version that can still be recovered", async () => {
    await inCopy(dropped, (inputs[0] as Input).bytes, async (copy) => {
      await withFleet(copy, async ({ repository }) => {
        const { problems, unrecoverable } = await repository.check();
        assert.ok(problems.length > 0);
        // Its tensors were not collected yet.
        assert.equal(unrecoverable, undefined);
      });
    });
  });

  it("keeps tensors that are still here, if what stands for them is damaged", async () => {
    const { bytes } = inputs[0] as Input;
    await inCopy(dropped, bytes, async (copy) => {
      await withFleet(copy, async ({ operations, repository }) => {
        await assert.rejects(
          async () => repository.collect(await repository.planCollection()),
          (error) => isStemmaError(error, "COLLECTION_REFUSED"),
        );
        await operations.keepTensors({ fleet, model: "sums:2" });
        const { verifiedRoot } = await repository.recover(repository.resolve("sums:2").versionId);
        assert.equal(verifiedRoot, root);
      });
    });
  });

  it("recovers from the undamaged home, and from a backup of it", async () => {
    await withFleet(collected, async ({ repository }) => {
      const { versionId } = repository.resolve("sums:2");
      assert.equal((await repository.recover(versionId)).verifiedRoot, root);
      const { problems } = await repository.backup(`${trained.path}-backup`);
      assert.deepEqual(problems, []);
    });
  });
});
