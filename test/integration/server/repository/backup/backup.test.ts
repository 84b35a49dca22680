/** Backups while serving, restores into an empty home, and everything that they refuse. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { writeDurably } from "../../../../../shared/files/durable-write.js";
import { openHome } from "../../../../../server/repository/home.js";
import { restoreBackup, verifyBackup } from "../../../../../server/repository/backup/restore.js";
import type { Files } from "../../../../../shared/ports.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  places,
  sameTensors,
  tensorsOf,
} from "../harness.js";

async function filesBelow(files: Files, folder: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of await files.list(folder)) {
    const path = join(folder, name);
    if ((await files.stat(path))?.kind === "folder") found.push(...(await filesBelow(files, path)));
    else found.push(path);
  }
  return found;
}

for (const [place, makeHome] of places) {
  test(`${place}: a backup made during saves restores to exactly what was recorded at its position`, async (context) => {
    const { home, ports, files, path } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    const base = tensorsOf("base", 4);
    const root = (await repository.save(modelOf(base), { name: "m" })).summary;
    await repository.append({
      type: "enrolled",
      atMs: 1,
      device: "car-1",
      publicKey: "k",
      tokenHash: "t",
      profile: "generic",
      lines: ["pack"],
    });
    const models = Array.from({ length: 30 }, (_, index) => fineTuned(base, `m${index}`));
    const folder = join(path, "..", "backup");
    const saves = models.map((tensors) =>
      repository.save(modelOf(tensors), { name: "m", bases: [root.versionId] }),
    );
    await saves[10];
    const { position, bytes } = await repository.backup(folder);
    const summaries = (await Promise.all(saves)).map(({ summary }) => summary);
    assert.ok(position >= 3 && bytes > 0);
    assert.equal(repository.backedUpTo(), position);

    const target = join(path, "..", "restored");
    const dry = await restoreBackup(folder, target, ports, { dryRun: true });
    assert.deepEqual([dry[0]?.position, await files.stat(target)], [position, undefined]);
    const [report] = await restoreBackup(folder, target, ports);
    assert.deepEqual(dry, [report]);
    assert.ok(report !== undefined && report.versions > 0);
    const restoredHome = await openHome(target, ports);
    assert.equal(restoredHome.signer.publicKey, home.signer.publicKey);
    const restored = await openRepository(restoredHome, "fleet-a");
    assert.deepEqual(restored.restoredTo(), { position, atMs: ports.clock.now() });
    assert.equal(restored.journal.head().length, position + 1);
    assert.equal(restored.backedUpTo(), position);
    for (const [index, summary] of summaries.entries()) {
      const before = summary.position < position;
      assert.equal(restored.get(summary.versionId) !== undefined, before);
      if (before) assert.ok(await sameTensors(restored, summary.versionId, models[index]!));
    }
    assert.equal(restored.versions().length, report.versions);
    assert.equal(restored.device("car-1")?.state, "enrolled");
    assert.deepEqual((await restored.check()).problems, []);
    // What came after the backup is announced again: the same record is accepted as if it were new.
    const lost = summaries.find((summary) => summary.position >= position);
    if (lost !== undefined)
      assert.ok(
        await sameTensors(
          restored,
          (await restored.save(modelOf(models[summaries.indexOf(lost)]!), { name: "m" })).summary.versionId,
          models[summaries.indexOf(lost)]!,
        ),
      );
    await restored.close();
    await restoredHome.close();
    await repository.close();
    await home.close();
  });
}

test("a second backup copies new packs only, forgets collected ones, and both stay restorable", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const first = (await repository.save(modelOf(tensorsOf("a", 8, 32)), { name: "a" })).summary;
  const one = await repository.backup("/backup");
  await repository.save(modelOf(tensorsOf("b", 1, 4)), { name: "b" });
  const two = await repository.backup("/backup");
  assert.ok(two.bytes < one.bytes / 4, `${two.bytes} after ${one.bytes}`);
  await repository.retire(first.versionId, "x");
  ports.clock.advance(61_000);
  await repository.collect(await repository.planCollection());
  await repository.backup("/backup");
  const packs = (await files.list("/backup/fleets/fleet-a/packs")).length;
  assert.equal(packs, (await repository.stats()).packs);
  assert.equal(
    (await files.list("/backup/fleets/fleet-a")).filter((name) => name.startsWith("journal-")).length,
    1,
  );
  await restoreBackup("/backup", "/restored", ports);
  await repository.close();
});

test("an interrupted backup leaves the previous one complete", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("a")), { name: "a" });
  await repository.backup("/backup");
  await repository.save(modelOf(tensorsOf("b")), { name: "b" });
  // What an interrupted backup may have left: half a pack, half a journal.
  await files.makeFolder("/backup/fleets/fleet-a/journal-99");
  const leftover = await files.open("/backup/fleets/fleet-a/packs/half.pack.tmp", "create");
  await leftover.write(new Uint8Array(10), 0);
  await leftover.close();
  assert.equal((await verifyBackup(files, "/backup"))[0]?.head.length, 1);
  const [restored] = await restoreBackup("/backup", "/restored", ports);
  assert.deepEqual([restored?.versions, restored?.position], [1, 1]);
  await repository.backup("/backup");
  assert.equal(await files.stat("/backup/fleets/fleet-a/packs/half.pack.tmp"), undefined);
  assert.ok(summary.position === 0);
  await repository.close();
});

test("damage anywhere in a backup is found before anything is restored", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("a", 2, 4)), { name: "a" });
  await repository.backup("/backup");
  await repository.close();
  for (const path of await filesBelow(files, "/backup")) {
    const bytes = await files.read(path);
    for (const at of [0, Math.floor(bytes.length / 2), bytes.length - 2]) {
      const file = await files.open(path, "update");
      await file.write(Uint8Array.of(bytes[at]! ^ 1), at);
      await assert.rejects(
        restoreBackup("/backup", "/target", ports, {}),
        (error: { code?: string }) =>
          [
            "BACKUP_INVALID",
            "JOURNAL_CORRUPT",
            "HEAD_SIGNATURE_INVALID",
            "KEY_INVALID",
            "JOURNAL_FORMAT_UNKNOWN",
          ].includes(error.code ?? ""),
        `${path} at ${at}`,
      );
      assert.equal(await files.stat("/target"), undefined, `${path} at ${at}`);
      await file.write(bytes.slice(at, at + 1), at);
      await file.close();
    }
  }
  // A manifest without a pack is consistent in itself, but objects that the facts refer to are missing.
  const manifest = JSON.parse(
    Buffer.from(await files.read("/backup/fleets/fleet-a/backup.json")).toString(),
  ) as { packs: unknown[] };
  await writeDurably(
    files,
    "/backup/fleets/fleet-a/backup.json",
    Buffer.from(JSON.stringify({ ...manifest, packs: [] })),
  );
  await assert.rejects(restoreBackup("/backup", "/target", ports), { code: "BACKUP_INVALID" });
  await writeDurably(files, "/backup/fleets/fleet-a/backup.json", Buffer.from(JSON.stringify(manifest)));
  // The refused attempt left no fleet behind, so the target still counts as empty.
  await restoreBackup("/backup", "/target", ports);
});

test("a backup is refused into its own home or over another history, and is never restored over existing data", async () => {
  const { home, ports } = await memoryHome();
  const other = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("a")), { name: "a" });
  await assert.rejects(repository.backup("/home/backup"), { code: "BACKUP_INVALID" });
  await assert.rejects(repository.backup("/home"), { code: "BACKUP_INVALID" });
  await repository.backup("/backup");
  await assert.rejects(restoreBackup("/backup", "/home", ports), { code: "BACKUP_INVALID" });
  await assert.rejects(restoreBackup("/nothing", "/target", ports), { code: "BACKUP_INVALID" });
  await repository.close();
  // Another server's fleet of the same name must not overwrite it.
  const strangeHome = await openHome("/strange", ports);
  const strange = await openRepository(strangeHome, "fleet-a");
  for (const seed of ["x", "y", "z"]) await strange.save(modelOf(tensorsOf(seed)), { name: "s" });
  await assert.rejects(strange.backup("/backup"), { code: "BACKUP_INVALID" });
  await strange.close();
  await other.home.close();
});
