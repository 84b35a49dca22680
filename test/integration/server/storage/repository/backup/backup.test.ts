/** Backups while serving, restores into an empty home, and everything that they refuse. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { writeDurably } from "../../../../../../shared/files/durable-write.js";
import { segmentOfFormat } from "../../../../../helpers/segment-format.js";
import { openHome, type HomePorts } from "../../../../../../server/storage/repository/home.js";
import { restoreBackup, verifyBackup } from "../../../../../../server/storage/repository/backup/restore.js";
import type { Files } from "../../../../../../shared/ports.js";
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
    assert.deepEqual(restored.restores(), [
      { factPosition: position, position, atMs: ports.clock.now(), isFromBackup: true },
    ]);
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
  assert.equal((await verifyBackup(files, "/backup"))[0]?.manifest.head.length, 1);
  const [restored] = await restoreBackup("/backup", "/restored", ports);
  assert.deepEqual([restored?.versions, restored?.position], [1, 1]);
  await repository.backup("/backup");
  assert.equal(await files.stat("/backup/fleets/fleet-a/packs/half.pack.tmp"), undefined);
  assert.ok(summary.position === 0);
  await repository.close();
});

test(
  "damage in a backup's manifest or key is refused; damage in a pack or journal is named, the rest " +
    "restored",
  async () => {
    const { home, ports, files } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    await repository.save(modelOf(tensorsOf("a", 2, 4)), { name: "a" });
    const { summary } = await repository.save(modelOf(tensorsOf("b", 2, 4)), { name: "b" });
    await repository.backup("/backup");
    await repository.close();
    for (const path of await filesBelow(files, "/backup")) {
      const bytes = await files.read(path);
      // Offset 8: the format field.
      for (const at of [0, 8, Math.floor(bytes.length / 2), bytes.length - 2]) {
        const where = `${path} at ${at}`;
        const file = await files.open(path, "update");
        await file.write(Uint8Array.of(bytes[at]! ^ 1), at);
        if (path.endsWith(".pack") || path.endsWith(".log")) {
          const [dry] = await restoreBackup("/backup", "/target", ports, { dryRun: true });
          assert.ok(dry!.problems.length > 0, where);
          assert.equal(await files.stat("/target"), undefined, where);
          const [restored] = await restoreBackup("/backup", "/target", ports);
          assert.ok(restored!.problems.length > 0, where);
          await assertPartlyRestored("/target", ports, restored!.problems);
          await files.remove("/target");
        } else {
          await assert.rejects(restoreBackup("/backup", "/target", ports, {}), isRefusal, where);
          assert.equal(await files.stat("/target"), undefined, where);
        }
        await file.write(bytes.slice(at, at + 1), at);
        await file.close();
      }
    }
    // A backup without its packs restores the journal and names what is missing.
    for (const name of await files.list("/backup/fleets/fleet-a/packs"))
      await files.remove(join("/backup/fleets/fleet-a/packs", name));
    const [empty] = await restoreBackup("/backup", "/target", ports);
    assert.ok(empty!.problems.some(({ id, message }) => id === summary.versionId && message.includes("b:1")));
  },
);

test("a restore refuses a journal of a newer format instead of salvaging it", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("a", 1, 4)), { name: "a" });
  await repository.backup("/backup");
  await repository.close();
  const path = (await filesBelow(files, "/backup")).find((name) => name.endsWith(".log"))!;
  const newer = segmentOfFormat(2, await files.read(path));
  const file = await files.open(path, "update");
  await file.write(newer, 0);
  await file.close();
  await assert.rejects(restoreBackup("/backup", "/target", ports), { code: "JOURNAL_FORMAT_UNKNOWN" });
  assert.equal(await files.stat("/target"), undefined);
});

const isRefusal = ({ code }: { readonly code?: string }): boolean =>
  ["BACKUP_INVALID", "HEAD_SIGNATURE_INVALID", "KEY_INVALID"].includes(code ?? "");

/** Every version can be recovered bit for bit, or a problem names it or one of its tensors. */
async function assertPartlyRestored(
  path: string,
  ports: HomePorts,
  problems: readonly { readonly id: string; readonly message: string }[],
): Promise<void> {
  const restoredHome = await openHome(path, ports);
  const restored = await openRepository(restoredHome, "fleet-a");
  const known = restored.knownDamage().versions.map(({ name }) => name);
  for (const name of ["a", "b"]) {
    const version = known.includes(name) ? undefined : restored.resolve(name);
    const isWhole =
      version !== undefined &&
      (await sameTensors(restored, version.versionId, tensorsOf(name, 2, 4)).catch(() => false));
    if (!isWhole)
      assert.ok(
        problems.some(({ message }) => message.includes(`${name}:1`) || message.includes(`${name} (`)),
        `${name} is not named in ${JSON.stringify(problems)}`,
      );
  }
  // What was damaged is not in the way of later collections and checks.
  assert.deepEqual(restored.knownDamage().packs, []);
  await restored.close();
  await restoredHome.close();
}

test("a backup names damaged and missing packs, does not count as one, and keeps what an earlier one has", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const tensors = tensorsOf("a", 2, 4);
  await repository.save(modelOf(tensors), { name: "a" });
  assert.deepEqual((await repository.backup("/backup")).problems, []);
  const [good] = await files.list("/backup/fleets/fleet-a/packs");
  await repository.save(modelOf(tensorsOf("b", 2, 4)), { name: "b" });
  const counted = repository.backedUpTo();
  const packs = "/home/fleets/fleet-a/packs";
  const other = (await files.list(packs)).find((name) => name.endsWith(".pack") && name !== good)!;
  // One object of the new pack is damaged, and the pack that was backed up before is missing.
  const bytes = await files.read(join(packs, other));
  const file = await files.open(join(packs, other), "update");
  await file.write(Uint8Array.of(bytes[33]! ^ 1), 33);
  await file.close();
  await files.remove(join(packs, good!));
  const { problems } = await repository.backup("/backup");
  assert.ok(problems.some(({ what }) => what === "pack: FILE_MISSING"));
  assert.ok(problems.some(({ what }) => what === "object: OBJECT_HASH_MISMATCH"));
  assert.ok(problems.some(({ message }) => message.includes("a:1")));
  assert.equal(repository.backedUpTo(), counted);
  assert.ok((await files.list("/backup/fleets/fleet-a/packs")).includes(good!));
  await repository.close();

  const [restored] = await restoreBackup("/backup", "/restored", ports);
  assert.ok(restored!.problems.length > 0);
  const restoredHome = await openHome("/restored", ports);
  const back = await openRepository(restoredHome, "fleet-a");
  assert.ok(await sameTensors(back, back.resolve("a").versionId, tensors));
  await back.close();
});

test("a backup is refused into any folder that is neither empty nor a backup of this server", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("a")), { name: "a" });
  const put = async (path: string): Promise<void> => {
    await files.makeFolder(join(path, ".."));
    await writeDurably(files, path, Buffer.from("{}"));
  };
  for (const path of [
    "/agent/agent.json",
    "/agent-2/outbox/journal/head",
    "/other-home/format.json",
    "/other-home-2/fleets/fleet-a/journal/head",
    "/other-home-3/fleets/notes.txt",
    "/documents/thesis.txt",
  ]) {
    await put(path);
    const folder = `/${path.split("/")[1]}`;
    const before = await filesBelow(files, folder);
    await assert.rejects(repository.backup(folder), { code: "BACKUP_INVALID" }, path);
    assert.deepEqual(await filesBelow(files, folder), before, path);
  }
  await put("/file");
  await assert.rejects(repository.backup("/file"), { code: "BACKUP_INVALID" });
  // The backup of another server, even one without this fleet, keeps its key.
  const strange = await openRepository(await openHome("/strange", ports), "fleet-b");
  await strange.save(modelOf(tensorsOf("b")), { name: "b" });
  await strange.backup("/strange-backup");
  await strange.close();
  await assert.rejects(repository.backup("/strange-backup"), { code: "BACKUP_INVALID" });
  assert.deepEqual((await restoreBackup("/strange-backup", "/strange-2", ports))[0]!.problems, []);
  // An empty disk has its file system's own folder.
  await files.makeFolder("/disk/lost+found");
  for (const folder of ["/disk", "/new", "/disk"]) await repository.backup(folder);
  await repository.close();
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

test("a backup whose journal lost facts is salvaged; one with another history is refused", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  for (const name of ["a", "b", "c"]) await repository.save(modelOf(tensorsOf(name, 1, 4)), { name });
  await repository.backup("/backup");
  await repository.close();
  const folder = "/backup/fleets/fleet-a/journal-3";
  const segment = join(
    folder,
    (await files.list(folder)).find((name) => name.endsWith(".log"))!,
  );
  const bytes = await files.read(segment);
  const file = await files.open(segment, "update");
  // The second fact's frame.
  const frames = [64];
  for (let i = 0; i < 2; i++)
    frames.push(
      frames[i]! + 24 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(frames[i]! + 4, true),
    );
  await file.write(new Uint8Array(frames[2]! - frames[1]!), frames[1]!);
  const [dry] = await restoreBackup("/backup", "/target", ports, { dryRun: true });
  const [report] = await restoreBackup("/backup", "/target", ports);
  assert.deepEqual(dry, report);
  assert.deepEqual([report?.position, report?.versions], [1, 3]);
  assert.deepEqual(
    report?.problems.map(({ what }) => what),
    ["journal: JOURNAL_CORRUPT"],
  );
  const restoredHome = await openHome("/target", ports);
  const restored = await openRepository(restoredHome, "fleet-a");
  for (const name of ["a", "b", "c"])
    assert.ok(await sameTensors(restored, restored.resolve(name).versionId, tensorsOf(name, 1, 4)));
  assert.deepEqual(
    restored.restores().map(({ position, isFromBackup }) => [position, isFromBackup]),
    [[1, false]],
  );
  assert.equal(restored.backedUpTo(), 0);
  await restored.close();
  await restoredHome.close();
  await files.remove("/target");

  // As many facts, intact, and not those that were backed up.
  const second = bytes.slice(frames[1], frames[2]);
  const third = bytes.slice(frames[2]);
  await file.write(third, frames[1]!);
  await file.write(second, frames[1]! + third.length);
  await file.close();
  await assert.rejects(restoreBackup("/backup", "/target", ports), { code: "JOURNAL_CORRUPT" });
  assert.equal(await files.stat("/target"), undefined);
});

test("a backup has the server's key encrypted with the passphrase, and gives it back for no other", async () => {
  const { home, ports, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("base", 4)), { name: "m" });
  const passphrase = "correct horse battery staple";
  await repository.backup("/backup", passphrase);
  assert.deepEqual([...(await files.list("/backup"))].sort(), ["fleets", "server-key.sealed.json"]);
  const sealed = Buffer.from(await files.read("/backup/server-key.sealed.json")).toString();
  assert.ok(!sealed.includes(home.signer.seed));

  const restore = (options: Parameters<typeof restoreBackup>[3]): ReturnType<typeof restoreBackup> =>
    restoreBackup("/backup", "/restored", ports, options);
  assert.equal((await restore({ dryRun: true })).length, 1, "a dry run needs no passphrase");
  await assert.rejects(restore({}), { code: "BACKUP_INVALID" });
  for (const dryRun of [true, false])
    await assert.rejects(restore({ passphrase: `${passphrase}!`, dryRun }), { code: "KEY_INVALID" });
  assert.equal(await files.stat("/restored"), undefined, "nothing was written");
  await restore({ passphrase });
  const restored = await openHome("/restored", ports);
  assert.equal(restored.signer.publicKey, home.signer.publicKey);
  await restored.close();

  // The same folder, first without a passphrase, then with another one: one form of the key is there each time.
  await repository.backup("/backup");
  assert.deepEqual([...(await files.list("/backup"))].sort(), ["fleets", "server-key.json"]);
  await repository.backup("/backup", "another passphrase");
  assert.deepEqual([...(await files.list("/backup"))].sort(), ["fleets", "server-key.sealed.json"]);
  await restoreBackup("/backup", "/again", ports, { passphrase: "another passphrase" });
  await assert.rejects(repository.backup("/short", "too short"), { code: "USAGE" });
  await repository.close();
  await home.close();
});
