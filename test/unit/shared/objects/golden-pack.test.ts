/**
 * Packs of format 2 as they may be stored on a user's disk: they are read bit for bit, and still written the
 * same. No test writes the vectors again.
 */
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import { folderTierFiles } from "../../../../shared/objects/tiers/folder-tier-files.js";
import type { MovedLowBytes } from "../../../../shared/objects/tiers/low-bytes-moves.js";
import type { LowPart } from "../../../../shared/objects/tiers/low-part.js";
import {
  sourceOfTensor,
  tensorOfSource,
  type Hash,
  type TensorHeader,
} from "../../../../shared/tensor/tensor.js";
import { idOfTensor } from "../../../helpers/coded-tensors.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

interface Expected {
  readonly packs: readonly {
    readonly pack: string;
    readonly bytes: number;
    readonly recode: boolean;
    readonly tensors: readonly { readonly id: Hash; readonly coded: boolean }[];
  }[];
  readonly tensors: readonly (TensorHeader & {
    readonly id: Hash;
    readonly representation: { readonly code: number; readonly depth: number };
  })[];
}
const vectors = new URL("../../../../../test/vectors/packs-2/", import.meta.url);
const expected = JSON.parse(await readFile(new URL("expected.json", vectors), "utf8")) as Expected;
const options = () => ({ clock: manualClock(), random: seededRandom("golden packs") });

it("reads golden packs of format 2, with and without their cache and after a collection, and still writes the same bytes", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-golden-"));
  try {
    await cp(new URL("packs", vectors), join(folder, "packs"), { recursive: true });
    assert.ok(
      expected.tensors.some(({ representation }) => representation.depth > 1) &&
        new Set(expected.tensors.map(({ representation }) => representation.code)).size > 3,
    );
    for (const way of ["cache", "no cache", "collected"]) {
      if (way === "no cache") await rm(join(folder, "packs", "index"));
      const store = await openPackStore(nodeFiles(), join(folder, "packs"), options());
      assert.deepEqual(store.problems(), []);
      const live = new Set(expected.tensors.map(({ id }) => id));
      if (way === "collected") await store.collect(await store.planCollection(live), () => live);
      assert.deepEqual(new Set([...store.list()].map(({ id }) => id)), live);
      for (const { id, dtype, shape, representation } of expected.tensors) {
        const tensor = await tensorOfSource(store.openTensor(id, { verify: false }));
        assert.deepEqual([tensor.dtype, tensor.shape, idOfTensor(tensor)], [dtype, shape, id]);
        assert.deepEqual(store.encodingOf(id), representation);
      }
      if (way === "no cache") await writesTheSame(store);
      await store.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

/** Writing the same tensors with the same encodings makes the same packs. */
async function writesTheSame(golden: Awaited<ReturnType<typeof openPackStore>>): Promise<void> {
  const files = memoryFiles();
  const store = await openPackStore(files, "/packs", options());
  for (const { pack: name, recode, tensors } of expected.packs) {
    const pack = await store.begin({ recode });
    for (const { id, coded } of tensors)
      await (coded
        ? pack.putCoded(await golden.readCoded(id))
        : pack.putTensor(sourceOfTensor(await tensorOfSource(golden.openTensor(id)))));
    assert.equal((await pack.commit()).pack, name);
    assert.deepEqual(
      new Uint8Array(await files.read(`/packs/${name}.pack`)),
      new Uint8Array(await readFile(new URL(`packs/${name}.pack`, vectors))),
    );
  }
  await store.close();
}

interface ExpectedTier {
  readonly moved: MovedLowBytes;
  readonly tensors: readonly (TensorHeader & { readonly id: Hash; readonly low: LowPart | null })[];
}

it("reads golden packs of format 3 with their low file, also after a collection", async () => {
  const source = new URL("../packs-3/", vectors);
  const { moved, tensors } = JSON.parse(
    await readFile(new URL("expected.json", source), "utf8"),
  ) as ExpectedTier;
  assert.ok(moved.tensors === 3 && tensors.filter(({ low }) => low !== null).length === 3);
  const folder = await mkdtemp(join(tmpdir(), "stemma-golden-"));
  try {
    await cp(source, folder, { recursive: true });
    for (const way of ["as it is", "collected"]) {
      const store = await openPackStore(nodeFiles(), join(folder, "packs"), {
        ...options(),
        tiers: () => [{ name: "cold", files: folderTierFiles(nodeFiles(), join(folder, "tier")) }],
      });
      assert.deepEqual(store.problems(), []);
      const live = new Set(tensors.slice(1).map(({ id }) => id));
      if (way === "collected") await store.collect(await store.planCollection(live), () => live);
      const { files: _files, ...totals } = store.lowBytes.totals();
      assert.deepEqual(totals, moved);
      for (const { id, low } of tensors) {
        assert.equal(idOfTensor(await tensorOfSource(store.openTensor(id, { verify: false }))), id);
        assert.deepEqual(store.lowBytes.lowPartOf(id) ?? null, low);
      }
      await store.close();
    }
    const [pack] = (await readdir(join(folder, "packs"))).filter((name) => name.endsWith(".pack"));
    const bytes = await readFile(join(folder, "packs", pack as string));
    assert.equal(bytes.readUInt32LE(8), 3);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
