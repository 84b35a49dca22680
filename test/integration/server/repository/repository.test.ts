/**
 * A fleet's repository in memory and on a real folder: everything saved is recovered bit for bit, whatever
 * happens in between.
 */
import assert from "node:assert/strict";
import type { LeafTable, SaveRecord } from "../../../../shared/model/model.js";
import { encodeSaveRecord, versionIdOf } from "../../../../shared/model/save-record.js";
import { decodeTree, encodeTree } from "../../../../shared/model/tree-object.js";
import { test } from "node:test";
import type { Fact } from "../../../../shared/journal/fact.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { VersionQuery } from "../../../../server/catalog/version-query.js";
import { openHome } from "../../../../server/repository/home.js";
import { manualClock } from "../../../helpers/manual-clock.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  places,
  recoveredTensors,
  sameTensors,
  seededRandom,
  tensorsOf,
  type NamedTensor,
} from "./harness.js";

for (const [place, makeHome] of places) {
  test(`${place}: a chain of partial updates recovers every version, also after reopening`, async (context) => {
    const { home, reopen } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    let tensors = tensorsOf("chain", 8);
    let base = (await repository.save(modelOf(tensors), { name: "soh" })).summary;
    const saved: [typeof base, readonly NamedTensor[]][] = [[base, tensors]];
    for (let step = 1; step <= 10; step++) {
      tensors = fineTuned(tensors, `step ${step}`);
      const report = await repository.save(modelOf(tensors), { name: "soh", bases: [base.versionId] });
      assert.equal(report.approach, "update");
      assert.equal(
        report.newTensorBytes,
        tensors.slice(-2).reduce((sum, { bytes }) => sum + bytes.length, 0),
      );
      assert.equal(report.summary.ownBytes, report.newTensorBytes);
      base = report.summary;
      saved.push([base, tensors]);
    }
    assert.deepEqual(
      saved.map(([{ version }]) => version),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
    await repository.close();
    await home.close();
    const again = await reopen();
    const reopened = await openRepository(again, "fleet-a");
    for (const [summary, expected] of saved) {
      assert.ok(await sameTensors(reopened, summary.versionId, expected), summary.versionId);
      assert.deepEqual(reopened.get(summary.versionId), summary);
    }
    assert.equal(reopened.lineage(base.versionId).length, 11);
    assert.equal(reopened.resolve("soh").version, 11);
    assert.equal(reopened.resolve("soh:3").versionId, saved[2]![0].versionId);
    assert.equal(reopened.resolve(base.versionId.slice(0, 8)).versionId, base.versionId);
    assert.deepEqual((await reopened.check()).problems, []);
    const stats = await reopened.stats();
    assert.equal(stats.packs, 11);
    assert.equal(stats.logicalBytes, 11 * base.tensorBytes);
    assert.ok(stats.packBytes < stats.logicalBytes / 2);
    await reopened.close();
    await again.close();
  });

  test(`${place}: 200 concurrent saves get 200 numbers, and each is recovered`, async (context) => {
    const { home } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    const base = tensorsOf("base", 3, 8);
    const root = (await repository.save(modelOf(base), { name: "cam" })).summary;
    const models = Array.from({ length: 200 }, (_, index) => fineTuned(base, `car ${index}`, 1));
    const reports = await Promise.all(
      models.map((tensors, index) =>
        repository.save(modelOf(tensors), { name: index % 2 === 0 ? "cam" : "soh", bases: [root.versionId] }),
      ),
    );
    const numbers = (name: string): number[] =>
      reports
        .map(({ summary }) => summary)
        .filter((summary) => summary.name === name)
        .map(({ version }) => version)
        .sort((a, b) => a - b);
    assert.deepEqual(
      numbers("soh"),
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
    assert.deepEqual(
      numbers("cam"),
      Array.from({ length: 100 }, (_, index) => index + 2),
    );
    assert.equal(new Set(reports.map(({ summary }) => summary.record.sequence)).size, 200);
    const { packs, packBytes } = await repository.stats();
    while ((await repository.mergePacks({ keepFreeBytes: 0 })) !== undefined);
    const merged = await repository.stats();
    assert.equal(packs, 201);
    assert.ok(merged.packs < 20 && merged.merged.packs >= packs - merged.packs, `${merged.packs} packs`);
    assert.ok(merged.packBytes < packBytes);
    assert.equal(merged.smallPacks, merged.packs);
    for (const [index, { summary }] of reports.entries())
      if (index % 20 === 0) assert.ok(await sameTensors(repository, summary.versionId, models[index]!));
    assert.deepEqual((await repository.check({ sample: 50 })).problems, []);
    await repository.close();
    await home.close();
  });
}

test("appends in flight share their fsyncs", async () => {
  const { files } = await memoryHome();
  let syncs = 0;
  const counting = {
    ...files,
    open: async (path: string, mode: Parameters<typeof files.open>[1]) => {
      const file = await files.open(path, mode);
      return {
        read: file.read.bind(file),
        write: file.write.bind(file),
        size: file.size.bind(file),
        truncate: file.truncate.bind(file),
        close: file.close.bind(file),
        sync: async () => {
          if (path.includes("/journal/")) syncs++;
          await file.sync();
        },
      };
    },
  };
  const home = await openHome("/other", { files: counting, clock: manualClock(), random: seededRandom("x") });
  const repository = await openRepository(home, "f");
  const { summary } = await repository.save(modelOf(tensorsOf("x", 1)), { name: "m" });
  syncs = 0;
  await Promise.all(
    Array.from({ length: 200 }, (_, index) => repository.tag("m", `t${index}`, summary.versionId)),
  );
  assert.ok(syncs <= 3, `${syncs} fsyncs of the journal for 200 facts`);
  await repository.close();
});

test("a save equal to its base stores under 1 kB and is a version of its own", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "vehicles-north");
  // As many tensors as MobileNetV2 has.
  const tensors = tensorsOf("mobilenet", 157, 4);
  const first = await repository.save(modelOf(tensors), { name: "front-camera-classifier" });
  const second = await repository.save(modelOf(tensors), {
    name: "front-camera-classifier",
    bases: [first.summary.versionId],
  });
  assert.ok(second.overheadBytes < 1000, `${second.overheadBytes} bytes`);
  assert.equal(second.newTensorBytes, 0);
  assert.equal(second.summary.ownBytes, 0);
  assert.notEqual(second.summary.versionId, first.summary.versionId);
  assert.equal(second.summary.record.contentId, first.summary.record.contentId);
  assert.ok(await sameTensors(repository, second.summary.versionId, tensors));
  await repository.close();
});

test("records received from a device: the same record twice is one version, foreign and dangling records are refused", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const other = await openRepository(home, "fleet-b");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  const recordBytes = await repository.objects.read("record", summary.versionId);
  const length = repository.journal.head().length;
  const again = await Promise.all([repository.record(recordBytes), repository.record(recordBytes)]);
  assert.deepEqual(again, [summary, summary]);
  assert.equal(repository.journal.head().length, length);
  await assert.rejects(other.record(recordBytes), { code: "OBJECT_MISSING" });
  const writer = await other.objects.begin();
  for (const { id, kind } of repository.objects.list())
    if (kind !== "tensor" && kind !== "record")
      await writer.put(kind, await repository.objects.read(kind, id));
  await writer.commit();
  await assert.rejects(other.record(recordBytes), { code: "IDENTITY_FOREIGN" });
  await assert.rejects(repository.record(recordBytes.subarray(0, 40)), { code: "CANONICAL_JSON_INVALID" });
  await repository.close();
  await other.close();
});

test("a record whose tensors are missing is refused with their names, and uses no version number", async () => {
  const { home } = await memoryHome();
  const from = await openRepository(home, "fleet-a");
  const { summary } = await from.save(modelOf(tensorsOf("m")), { name: "soh" });
  const recordBytes = await from.objects.read("record", summary.versionId);
  const secondHome = await memoryHome();
  const to = await openRepository(secondHome.home, "fleet-a");
  const writer = await to.objects.begin();
  for (const { id, kind } of from.objects.list())
    if (kind !== "tensor") await writer.put(kind, await from.objects.read(kind, id));
  await writer.commit();
  await assert.rejects(to.record(recordBytes), { code: "REFERENCE_MISSING" });
  assert.equal(to.get(summary.versionId), undefined);
  assert.equal((await to.save(modelOf(tensorsOf("n")), { name: "soh" })).summary.version, 1);
  await from.close();
  await to.close();
});

test("a version that declares a stored tensor or object as something else is neither recorded nor passes a check", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  const { objects } = repository;
  const { kind, leaves } = decodeTree(await objects.read("tree", summary.record.objects.tree));
  const [first, ...others] = leaves as [LeafTable[number], ...LeafTable[number][]];
  const elements = first.shape.reduce((a, b) => a * b);
  const length = repository.journal.head().length;
  const declare = async (tree: LeafTable, more: Partial<SaveRecord["objects"]> = {}): Promise<Uint8Array> => {
    const writer = await objects.begin();
    const record = encodeSaveRecord({
      ...summary.record,
      sequence: 2,
      objects: { ...summary.record.objects, ...more, tree: await writer.put("tree", encodeTree(kind, tree)) },
    });
    await writer.put("record", record);
    await writer.commit();
    return record;
  };
  const lies: readonly (readonly [string, Promise<Uint8Array>])[] = [
    ["TREE_MALFORMED", declare([{ ...first, dtype: "I32" }, ...others])],
    ["TREE_MALFORMED", declare([{ ...first, shape: [elements / 2, 2] }, ...others])],
    ["TREE_MALFORMED", declare([{ ...first, shape: [1, ...first.shape] }, ...others])],
    ["OBJECT_KIND_MISMATCH", declare(leaves, { provenance: summary.record.objects.names })],
    ["OBJECT_KIND_MISMATCH", declare(leaves, { attachments: [{ name: "a", hash: first.tensor }] })],
  ];
  for (const [code, lie] of lies) await assert.rejects(repository.record(await lie), { code });
  assert.equal(repository.journal.head().length, length);
  assert.deepEqual((await repository.check()).problems, []);
  // A journal that already has such a version, recorded by an earlier release: the check names it.
  const versionId = versionIdOf(await lies[0]![1]);
  await repository.journal.append([{ type: "recorded", atMs: 1, versionId, name: "soh", version: 2 }]);
  await repository.close();
  const again = await openRepository(home, "fleet-a");
  const { problems } = await again.check();
  assert.deepEqual(
    problems.map(({ what, id }) => [what, id]),
    [["version: TREE_MALFORMED", versionId]],
  );
  await again.close();
});

test("stored, released, held, tagged, retired: each is accepted in its order and refused outside it", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const {
    summary: { versionId },
  } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  await assert.rejects(repository.release(versionId, "too early"), { code: "NOT_ALLOWED" });
  assert.equal((await repository.confirmStored(versionId)).state, "stored");
  assert.equal((await repository.release(versionId, "stored")).state, "released");
  await repository.tag("soh", "best", versionId);
  assert.equal(repository.resolve("soh:best").versionId, versionId);
  await assert.rejects(repository.tag("soh", "7", versionId), { code: "NAME_INVALID" });
  await assert.rejects(repository.tag("cam", "best", versionId), { code: "FACT_INVALID" });
  await repository.hold(versionId, "incident 12");
  await assert.rejects(repository.retire(versionId, "old"), { code: "MODEL_HELD" });
  await repository.unhold(versionId, "closed");
  await repository.retire(versionId, "old");
  await repository.retire(versionId, "again");
  await assert.rejects(repository.recover(versionId), { code: "MODEL_RETIRED" });
  await assert.rejects(repository.hold(versionId, "late"), { code: "MODEL_RETIRED" });
  assert.throws(() => repository.resolve("soh"), { code: "MODEL_RETIRED" });
  assert.equal(repository.resolve("soh:1").state, "retired");
  assert.deepEqual(repository.versions(), []);
  assert.equal(repository.versions({ includeRetired: true }).length, 1);
  assert.throws(() => repository.resolve("nothing"), { code: "MODEL_NOT_FOUND" });
  await repository.close();
});

test("a version that a device runs or was assigned is not retired; facts about unknown devices are refused", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const {
    summary: { versionId },
  } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  const atMs = ports.clock.now();
  await assert.rejects(
    repository.append({ type: "assigned", atMs, device: "car-1", line: "pack", versionId }),
    { code: "DEVICE_UNKNOWN" },
  );
  await assert.rejects(
    repository.append({
      type: "enrolled",
      atMs,
      device: "a/b",
      publicKey: "k",
      tokenHash: "t",
      profile: "generic",
      lines: [],
    }),
    { code: "NAME_INVALID" },
  );
  const generation = (number: number) => ({
    type: "enrolled" as const,
    atMs,
    device: "car-1",
    generation: number,
    publicKey: "k",
    tokenHash: "t",
    profile: "generic",
    lines: ["pack"],
  });
  // Of two people who enrol a device at the same time, one is told so.
  const enrolments = await Promise.allSettled([
    repository.append(generation(1)),
    repository.append(generation(1)),
  ]);
  assert.deepEqual(
    enrolments.map(({ status }) => status),
    ["fulfilled", "rejected"],
  );
  await repository.append(generation(2));
  assert.equal(repository.device("car-1")?.generation, 2);
  // Concurrent retirement and assignment: whichever comes first, never both.
  const both = await Promise.allSettled([
    repository.append({ type: "assigned", atMs, device: "car-1", line: "pack", versionId }),
    repository.retire(versionId, "race"),
  ]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ["fulfilled", "rejected"],
  );
  assert.equal(repository.assignment("car-1", "pack"), versionId);
  await repository.append({
    type: "activated",
    atMs: atMs + 5,
    versionId,
    device: "car-1",
    line: "pack",
    deviceAtMs: atMs + 1,
    deviceClockErrorMs: 1,
    session: 1,
  });
  assert.equal(repository.device("car-1")?.active["pack"]?.versionId, versionId);
  ports.clock.advance(1000);
  assert.equal(repository.asOf(atMs + 10)[0]?.versionId, versionId);
  const recovered = await repository.recover(versionId);
  assert.equal(recovered.verifiedRoot, repository.get(versionId)?.record.root);
  await repository.append({ type: "revoked", atMs, device: "car-1", because: "sold" });
  await repository.retire(versionId, "now it may go");
  await assert.rejects(repository.append({ type: "made-up", atMs } as unknown as Fact), {
    code: "FACT_INVALID",
  });
  await assert.rejects(repository.append({ type: "recorded", atMs, versionId, name: "x", version: 1 }), {
    code: "FACT_INVALID",
  });
  await repository.close();
});

test("names that are also ids, and prefixes that match several, are refused as ambiguous", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("m")), { name: "first" });
  const twin = (await repository.save(modelOf(tensorsOf("n")), { name: summary.versionId.slice(0, 12) }))
    .summary;
  assert.throws(() => repository.resolve(summary.versionId.slice(0, 12)), { code: "MODEL_AMBIGUOUS" });
  assert.equal(repository.resolve(`${twin.name}:1`).versionId, twin.versionId);
  await assert.rejects(repository.save(modelOf(tensorsOf("o")), { name: "a:b" }), { code: "NAME_INVALID" });
  await assert.rejects(
    repository.save(modelOf(tensorsOf("o")), {
      name: "ok",
      bases: ["0".repeat(64) as typeof summary.versionId],
    }),
    { code: "MODEL_NOT_FOUND" },
  );
  await repository.close();
});

test("diff finds what changed without reading tensors, at the cost of the change", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const tensors = tensorsOf("m", 32);
  const a = (await repository.save(modelOf(tensors), { name: "soh" })).summary;
  const changed = fineTuned(tensors, "x");
  const b = (
    await repository.save(modelOf([...changed.slice(1), { ...changed[0]!, name: "zzz" }]), {
      name: "soh",
      bases: [a.versionId],
    })
  ).summary;
  const same = await repository.diff(
    a.versionId,
    (await repository.save(modelOf(changed), { name: "soh" })).summary.versionId,
  );
  // Without an architecture leaves are ordered by name: bias before kernel, so the last layer's two are the
  // last two of 64.
  assert.deepEqual([same.comparisons, same.changes.length], [13, 2]);
  const kinds = (await repository.diff(a.versionId, b.versionId)).changes.map(({ kind }) => kind).sort();
  assert.deepEqual(kinds, ["changed", "changed", "renamed"]);
  await repository.close();
});

test("a listing queries the catalog, which follows every fact and can be rebuilt", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const idsOf = async (query: VersionQuery): Promise<readonly Hash[]> =>
    (await repository.list(query)).versions.map(({ versionId }) => versionId);
  const a = (
    await repository.save(modelOf(tensorsOf("a")), {
      name: "soh",
      metadata: { temperature: 25, site: "north" },
    })
  ).summary;
  assert.deepEqual(await idsOf({}), [a.versionId]);
  assert.deepEqual(await idsOf({ metadata: [{ key: "temperature", is: ">=", value: 20 }] }), [a.versionId]);
  const b = (
    await repository.save(modelOf(tensorsOf("b")), {
      name: "soh",
      bases: [a.versionId],
      metadata: { temperature: 5 },
    })
  ).summary;
  assert.deepEqual(await idsOf({ base: a.versionId }), [b.versionId]);
  assert.deepEqual(await idsOf({ metadata: [{ key: "temperature", is: "<", value: 20 }] }), [b.versionId]);
  assert.deepEqual(await repository.list({ order: "oldest", limit: 1 }), {
    versions: [repository.get(a.versionId)],
    total: 2,
    unreadable: [],
  });
  assert.deepEqual(await idsOf({ order: "oldest", offset: 1 }), [b.versionId]);
  await repository.tag("soh", "best", a.versionId);
  assert.deepEqual(await idsOf({ tag: "best" }), [a.versionId]);
  await repository.retire(b.versionId, "old");
  assert.deepEqual(await idsOf({}), [a.versionId]);
  const before = await repository.list({ includeRetired: true });
  assert.deepEqual(await repository.reindex(), { versions: 2, unreadable: [] });
  assert.deepEqual(await repository.list({ includeRetired: true }), before);
  await assert.rejects(repository.list({ name: { $gt: "" } as unknown as string }), {
    code: "HTTP_REQUEST_INVALID",
  });
  await repository.close();
});

test("recovery returns the names, order and metadata of the file", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const tensors = tensorsOf("m", 3).toReversed();
  const { summary } = await repository.save(modelOf(tensors), { name: "soh" });
  assert.deepEqual(
    (await recoveredTensors(repository, summary.versionId)).map(({ name }) => name),
    tensors.map(({ name }) => name),
  );
  assert.deepEqual((await repository.recover(summary.versionId)).names.fileMetadata, { format: "pt" });
  await repository.close();
});
