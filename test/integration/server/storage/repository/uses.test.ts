/**
 * What versions use: engine, recipe and data that many share, checkpoints and optimizer states of their own.
 * They are saved in one pack, recovered bit for bit, checked, backed up, and collected with their last user.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SaveOptions } from "../../../../../server/storage/repository/answers/save-answers.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import { encodeSaveRecord } from "../../../../../shared/model/save-record.js";
import type { SaveRecord } from "../../../../../shared/model/model.js";
import { encodeTree } from "../../../../../shared/model/tree-object.js";
import { checkVersion } from "../../../../../server/storage/repository/versions/record-version.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import type { SaveUses } from "../../../../../shared/save/save-uses.js";
import { objectId, sha256 } from "../../../../../shared/tensor/hash.js";
import { tensorOfSource } from "../../../../../shared/tensor/tensor.js";
import { streamOf, streamedBytes } from "../../../../helpers/object-stores.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  sameTensors,
  seededBytes,
  tensorsOf,
  withoutObjects,
  type NamedTensor,
} from "./harness.js";

const graceMs = 61_000;
const model = tensorsOf("model");
const at = (iteration: number): readonly NamedTensor[] => fineTuned(model, `iteration ${iteration}`);
const optimizer = (seed: string): readonly NamedTensor[] =>
  tensorsOf(seed, 2, 8).map((tensor) => ({ ...tensor, name: `m/${tensor.name}` }));
const engine = seededBytes("engine", 5000);
const data = seededBytes("data", 90_000);
const usesOf = (seed: string): SaveUses => ({
  engine: { source: streamOf(engine) },
  recipe: { source: streamOf(seededBytes(`recipe ${seed}`, 700)) },
  data: [{ source: streamOf(data) }, { source: streamOf(seededBytes(`more ${seed}`, 100)) }],
  optimizer: modelOf(optimizer(seed)),
  checkpoints: [10, 20].map((iteration) => ({ iteration, model: modelOf(at(iteration)) })),
});
async function save(
  repository: FleetRepository,
  seed: string,
  more: Partial<SaveOptions> = {},
): Promise<VersionSummary> {
  const { summary } = await repository.save(modelOf(fineTuned(model, seed)), {
    name: "soh",
    uses: usesOf(seed),
    ...makeProvenance(
      {
        engine: undefined,
        recipe: undefined,
        exactness: "none",
        bases: [],
        data: [],
        environment: objectId("environment", new Uint8Array()),
      },
      { notes: { seed } },
      { bytes: (count) => seededBytes(`salt ${seed}`, count) },
    ),
    ...more,
  });
  return summary;
}
const deadKinds = async (repository: FleetRepository): Promise<readonly string[]> =>
  (await repository.planCollection()).dead
    .map(({ id }) => repository.objects.stat(id)?.kind ?? "gone")
    .sort();

async function partOf(
  repository: FleetRepository,
  versionId: VersionSummary["versionId"],
  part: "optimizer" | { readonly checkpoint: number },
): Promise<ReadonlyMap<string, Buffer>> {
  const recovered = await repository.recover(versionId, { part });
  const entries = await Promise.all(
    recovered.sources.map(
      async (source, leaf) =>
        [recovered.names.leaves[leaf] as string, Buffer.from((await tensorOfSource(source)).bytes)] as const,
    ),
  );
  return new Map(entries);
}
const bytesByName = (tensors: readonly NamedTensor[]): ReadonlyMap<string, Buffer> =>
  new Map([...tensors].map(({ name, bytes }) => [name, Buffer.from(bytes)]));
const sorted = (tensors: ReadonlyMap<string, Buffer>): unknown =>
  [...tensors].sort(([a], [b]) => (a < b ? -1 : 1));

describe("saving and recovering", () => {
  test("model, checkpoints and optimizer come back bit for bit from one pack, also after reopening", async () => {
    const { home, reopen } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const summary = await save(repository, "v1");
    assert.equal(summary.record.format, 2);
    assert.equal((await repository.stats()).packs, 1);
    // Checkpoints differ from the model in the last layer only: the rest is stored once.
    const tensors = [...repository.objects.list()].filter(({ kind }) => kind === "tensor").length;
    assert.equal(tensors, model.length + 2 * 2 + optimizer("v1").length);
    assert.equal((await repository.confirmStored(summary.versionId)).state, "stored");
    await repository.close();
    await home.close();
    const again = await openRepository(await reopen(), "fleet-a");
    assert.ok(await sameTensors(again, summary.versionId, fineTuned(model, "v1")));
    for (const iteration of [10, 20])
      assert.deepEqual(
        sorted(await partOf(again, summary.versionId, { checkpoint: iteration })),
        sorted(bytesByName(at(iteration))),
      );
    assert.deepEqual(
      sorted(await partOf(again, summary.versionId, "optimizer")),
      sorted(bytesByName(optimizer("v1"))),
    );
    const { uses } = summary.record;
    assert.deepEqual(
      Buffer.from(await streamedBytes(again.objects, "data", uses?.data?.[0] as never)),
      Buffer.from(data),
    );
    assert.equal(uses?.engine, objectId("engine", engine));
    assert.deepEqual((await again.check()).problems, []);
    await again.close();
  });

  test("an unknown part is refused, and the error lists those that exist", async () => {
    const { home } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { versionId } = await save(repository, "v1");
    await assert.rejects(repository.recover(versionId, { part: { checkpoint: 15 } }), (error: Error) => {
      assert.equal((error as { code?: string }).code, "MODEL_PART_MISSING");
      assert.match(error.message, /10, 20/);
      return true;
    });
    const plain = await repository.save(modelOf(model), { name: "plain" });
    assert.equal(plain.summary.record.format, 1);
    await assert.rejects(repository.recover(plain.summary.versionId, { part: "optimizer" }), {
      code: "MODEL_PART_MISSING",
    });
    await repository.close();
  });

  test("what is used by id must be stored, except an engine; an optimizer's tree must be opaque", async () => {
    const { home } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const absent = { id: sha256("absent") };
    const before = repository.journal.head().length;
    await assert.rejects(save(repository, "v1", { uses: { data: [absent] } }), { code: "OBJECT_MISSING" });
    // A device may not keep a recipe that the server brings again: what a repository records has it.
    await assert.rejects(save(repository, "v1", { uses: { recipe: absent } }), { code: "REFERENCE_MISSING" });
    await assert.rejects(
      save(repository, "v1", { uses: { optimizer: { ...modelOf(model), kind: "architecture" } } }),
      { code: "TREE_MALFORMED" },
    );
    assert.equal(repository.journal.head().length, before);
    const first = await save(repository, "v1");
    const [shared] = first.record.uses?.data ?? [];
    const second = await save(repository, "v2", {
      uses: { engine: absent, data: [{ id: shared as never }] },
    });
    assert.deepEqual(second.record.uses, { engine: absent.id, data: [shared] });
    const { problems, absentEngines } = await repository.check();
    assert.deepEqual(problems, []);
    assert.deepEqual(absentEngines, [{ engine: absent.id, versions: 1 }]);
    // Neither a collection nor a backup is kept from running by an engine that is not here.
    await repository.planCollection();
    assert.deepEqual((await repository.backup("/backup")).problems, []);
    await repository.close();
  });
});

describe("recording what was received", () => {
  test("a version is not recorded before everything that it uses is there, except its engine", async () => {
    const source = await openRepository((await memoryHome()).home, "fleet-a");
    const { versionId, record } = await save(source, "v1");
    const recordBytes = await source.objects.read("record", versionId);
    const { engine: engineId } = record.uses as { engine: string };
    const all = [...source.objects.list()].filter(({ id }) => id !== engineId);
    const needed = all.filter(({ kind }) => ["data", "recipe", "openings", "tensor"].includes(kind));
    for (const left of [...needed.slice(0, 3), ...needed.slice(-3), undefined]) {
      const target = await openRepository((await memoryHome()).home, "fleet-a");
      const writer = await target.objects.begin();
      for (const { id, kind } of all) {
        if (id === left?.id) continue;
        if (kind === "tensor") await writer.putTensor(source.objects.openTensor(id), id);
        else if (kind === "data" || kind === "recipe")
          await writer.putStream(kind, source.objects.openStream(kind, id), id);
        else await writer.put(kind, await source.objects.read(kind, id));
      }
      await writer.commit();
      if (left !== undefined)
        await assert.rejects(target.record(recordBytes), { code: "REFERENCE_MISSING" }, left.kind);
      else {
        assert.equal((await target.record(recordBytes)).versionId, versionId);
        assert.deepEqual(
          await partOf(target, versionId, "optimizer"),
          await partOf(source, versionId, "optimizer"),
        );
      }
      await target.close();
    }
    await source.close();
  });

  test("trees of the wrong kind and objects in two roles are refused", async () => {
    const { home } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { record } = await save(repository, "v1");
    const { objects } = repository;
    const record2 = async (uses: SaveRecord["uses"]): Promise<Uint8Array> => {
      const bytes = encodeSaveRecord({ ...record, sequence: 9, ...(uses === undefined ? {} : { uses }) });
      const writer = await objects.begin();
      await writer.put("record", bytes);
      await writer.commit();
      return bytes;
    };
    const writer = await objects.begin();
    const tree = await writer.put("tree", encodeTree("architecture", []));
    await writer.commit();
    for (const [uses, code] of [
      [{ ...record.uses, optimizer: tree }, "TREE_MALFORMED"],
      [{ ...record.uses, checkpoints: [{ iteration: 1, tree }] }, "TREE_MALFORMED"],
      [{ ...record.uses, optimizer: record.objects.names }, "OBJECT_KIND_MISMATCH"],
      [{ ...record.uses, recipe: record.uses?.data?.[0] }, "OBJECT_KIND_MISMATCH"],
      [{ ...record.uses, engine: record.objects.tree }, "OBJECT_KIND_MISMATCH"],
    ] as const)
      await assert.rejects(repository.record(await record2(uses as SaveRecord["uses"])), { code });
    await repository.close();
  });
});

test("openings that are not what the provenance commits to are refused, and found by a check", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { objects } = (await save(repository, "right")).record;
  const openings = await repository.objects.read("openings", objects.openings as never);
  const { versionId, record } = await save(repository, "wrong", { openings });
  const recordBytes = await repository.objects.read("record", versionId);
  await assert.rejects(checkVersion(repository.objects, recordBytes), { code: "OPENINGS_MISMATCH" });
  const problems = (await repository.check()).problems.map(({ what, id }) => [what, id]);
  assert.deepEqual(problems, [["version: OPENINGS_MISMATCH", versionId]]);
  // Without provenance there is nothing that they could open.
  const { provenance: _provenance, ...others } = record.objects;
  const bare = encodeSaveRecord({ ...record, objects: others });
  await assert.rejects(checkVersion(repository.objects, bare), { code: "PROVENANCE_INVALID" });
  await repository.close();
});

describe("collection", () => {
  test("shared objects stay until their last user is gone; then everything goes", async () => {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const first = await save(repository, "v1");
    const second = await save(repository, "v2");
    ports.clock.advance(graceMs);
    assert.deepEqual(await deadKinds(repository), []);
    await repository.retire(first.versionId, "old");
    const kinds = await deadKinds(repository);
    assert.deepEqual(
      kinds.filter((kind) => !["tensor", "tree", "names", "owner-map"].includes(kind)),
      ["data", "openings", "provenance", "recipe"],
      "its own data, provenance, openings and recipe; the shared data and the engine stay",
    );
    await repository.collect(await repository.planCollection());
    assert.deepEqual((await repository.check()).problems, []);
    await partOf(repository, second.versionId, { checkpoint: 10 });
    await repository.retire(second.versionId, "old");
    await repository.collect(await repository.planCollection());
    assert.deepEqual(
      [...repository.objects.list()].map(({ kind }) => kind),
      ["record", "record"],
    );
    await repository.close();
  });

  test("an engine that no version has named yet stays", async () => {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const writer = await repository.objects.begin();
    await writer.putStream("engine", streamOf(engine));
    await writer.putStream("data", streamOf(data));
    await writer.commit();
    ports.clock.advance(graceMs);
    assert.deepEqual(await deadKinds(repository), ["data"]);
    await repository.close();
  });
});

describe("damage and redaction", () => {
  test("each missing object is named with its kind; redacted openings are not missing", async () => {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { versionId, record } = await save(repository, "v1");
    // A store without openings, data and recipe, as after a loss.
    const lost = new Set([record.objects.openings, record.uses?.recipe, ...(record.uses?.data ?? [])]);
    const live = withoutObjects(await repository.liveObjects(), lost);
    ports.clock.advance(graceMs);
    await repository.objects.collect(await repository.objects.planCollection(live), () => live);
    const named = async (): Promise<readonly string[]> =>
      (await repository.check()).problems.map(({ what, id }) => `${what} ${id}`).sort();
    const missing = (kind: string, id: string | undefined): string => `${kind}: OBJECT_MISSING ${String(id)}`;
    const others = [
      ...(record.uses?.data ?? []).map((id) => missing("data", id)),
      missing("recipe", record.uses?.recipe),
    ].sort();
    assert.deepEqual(await named(), [...others, missing("openings", record.objects.openings)].sort());
    await assert.rejects(repository.planCollection(), { code: "COLLECTION_REFUSED" });
    await repository.append({
      type: "redacted",
      atMs: 1,
      object: record.objects.openings as never,
      because: "asked for by the driver",
    });
    assert.deepEqual(await named(), others);
    assert.equal(repository.versions().length, 1);
    const { problems } = await repository.backup("/backup");
    assert.deepEqual(problems.map(({ what, id }) => `${what} ${id}`).sort(), others);
    assert.equal((await repository.recover(versionId)).versionId, versionId);
    await repository.close();
  });

  test("redacted openings are collected, and the fleet is backed up and restored without them", async () => {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { record, versionId } = await save(repository, "v1");
    await repository.append({
      type: "redacted",
      atMs: 1,
      object: record.objects.openings as never,
      because: "asked for",
    });
    ports.clock.advance(graceMs);
    assert.deepEqual(await deadKinds(repository), ["openings"]);
    await repository.collect(await repository.planCollection());
    assert.deepEqual((await repository.check()).problems, []);
    assert.deepEqual((await repository.backup("/backup")).problems, []);
    await repository.close();
    await home.close();
    const [dry] = await restoreBackup("/backup", "/restored", ports, { dryRun: true });
    const [restored] = await restoreBackup("/backup", "/restored", ports);
    assert.deepEqual([dry?.problems, restored?.problems], [[], []]);
    const again = await openRepository(await openHome("/restored", ports), "fleet-a");
    assert.deepEqual((await again.check()).problems, []);
    assert.deepEqual(
      sorted(await partOf(again, versionId, "optimizer")),
      sorted(bytesByName(optimizer("v1"))),
    );
    assert.equal(again.versions().length, 1);
    await again.close();
  });
});
