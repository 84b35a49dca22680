/**
 * Journals that are damaged, cut or gone: opening refuses them, and a salvage keeps what verifies, sets the
 * rest aside and names what was lost.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { salvageJournal } from "../../../../../server/storage/repository/salvage-journal.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { drawn } from "../../../../helpers/test-depth.js";
import { memoryHome, modelOf, openRepository, sameTensors, tensorsOf, type TestHome } from "./harness.js";

const journalFolder = "/home/fleets/fleet-a/journal";
const segment = join(journalFolder, "0000000000000000.log");
const names = ["a", "b", "c"];

/** A fleet with three versions, closed. */
async function recorded(): Promise<TestHome & { readonly versions: readonly Hash[]; readonly chain: Hash }> {
  const made = await memoryHome();
  const repository = await openRepository(made.home, "fleet-a");
  const versions: Hash[] = [];
  for (const name of names) {
    made.ports.clock.advance(1000);
    versions.push((await repository.save(modelOf(tensorsOf(name, 1, 4)), { name })).summary.versionId);
  }
  const { chain } = repository.journal.head();
  await repository.close();
  return { ...made, versions, chain };
}

async function change(files: Files, path: string, edit: (bytes: Uint8Array) => Uint8Array): Promise<void> {
  const bytes = edit((await files.read(path)).slice());
  await files.remove(path);
  const file = await files.open(path, "create");
  await file.write(bytes, 0);
  await file.close();
}

/** Where each entry's frame begins. */
function frames(bytes: Uint8Array): readonly number[] {
  const found: number[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 64; at < bytes.length; at += 24 + view.getUint32(at + 4, true)) found.push(at);
  return found;
}

test("a journal that was cut or removed with its head file is refused, and salvaged with every version", async () => {
  for (const kept of [0, 1, 2, "none"] as const) {
    const { home, files, versions } = await recorded();
    await files.remove(join(journalFolder, "head"));
    if (kept === "none") await files.remove(journalFolder);
    else await change(files, segment, (bytes) => bytes.slice(0, frames(bytes)[kept]));
    const count = kept === "none" ? 0 : kept;
    // Refused every time: a refusal must not make the next opening pass.
    for (let opening = 0; opening < 2; opening++)
      await assert.rejects(openRepository(home, "fleet-a"), { code: "JOURNAL_CORRUPT" }, `${kept}`);
    const dry = await salvageJournal(home, "fleet-a", { dryRun: true });
    assert.deepEqual(
      dry.recordedAgain.map(({ versionId }) => versionId),
      versions.slice(count),
    );
    await assert.rejects(openRepository(home, "fleet-a"), { code: "JOURNAL_CORRUPT" });
    const report = await salvageJournal(home, "fleet-a");
    assert.equal(report.verified, count);
    assert.deepEqual(report.refused, []);
    assert.deepEqual(report.recordedAgain, dry.recordedAgain);
    const repository = await openRepository(home, "fleet-a");
    assert.deepEqual(repository.restores().at(-1)?.position, count);
    assert.equal(repository.backedUpTo(), 0);
    for (const [index, versionId] of versions.entries())
      assert.ok(await sameTensors(repository, versionId, tensorsOf(names[index]!, 1, 4)));
    assert.deepEqual((await repository.check()).problems, []);
    await repository.close();
  }
});

test("a healthy journal is left as it is, and opens without its head file", async () => {
  const { home, files, chain } = await recorded();
  const before = await files.read(segment);
  assert.deepEqual((await salvageJournal(home, "fleet-a")).setAside, null);
  assert.deepEqual(await files.read(segment), before);
  await files.remove(join(journalFolder, "head"));
  const repository = await openRepository(home, "fleet-a");
  assert.equal(repository.journal.head().chain, chain);
  await repository.close();
});

test("a salvage puts any single flipped bit of a segment right, with the same history", async () => {
  const { home, files, chain } = await recorded();
  const original = await files.read(segment);
  const offsets = Array.from({ length: original.length }, (_, at) => at);
  for (const at of drawn(offsets, 40)) {
    await change(files, segment, () => {
      const bytes = original.slice();
      bytes[at] = bytes[at]! ^ (1 << (at % 8));
      return bytes;
    });
    // The end of the segment's header is not used.
    if (at >= 56 && at < 64) continue;
    const report = await salvageJournal(home, "fleet-a");
    assert.deepEqual([report.verified, report.gaps, report.agreesWithHead], [3, 0, true], `byte ${at}`);
    assert.ok(report.setAside !== null && (await files.stat(report.setAside)) !== undefined);
    const repository = await openRepository(home, "fleet-a");
    assert.equal(repository.journal.head().chain, chain, `byte ${at}`);
    await repository.close();
  }
});

test("facts after damage are kept, what is lost is named, and devices announce again", async () => {
  const { home, files, versions } = await recorded();
  await change(files, segment, (bytes) => {
    bytes.fill(0, frames(bytes)[1]! + 10, frames(bytes)[1]! + 40);
    return bytes;
  });
  await assert.rejects(openRepository(home, "fleet-a"), { code: "JOURNAL_CORRUPT" });
  const report = await salvageJournal(home, "fleet-a");
  assert.deepEqual([report.verified, report.later, report.gaps], [1, 1, 1]);
  assert.deepEqual(
    report.recordedAgain.map(({ versionId }) => versionId),
    [versions[1]],
  );
  const repository = await openRepository(home, "fleet-a");
  assert.equal(repository.restores().at(-1)?.position, 1);
  assert.deepEqual(
    repository.versions().map(({ name }) => name),
    ["a", "c", "b"],
  );
  await repository.close();
  await assert.rejects(salvageJournal(home, "no-fleet"), { code: "NOT_FOUND" });
});

test("a crash between the two renames of a salvage is completed when the fleet is opened", async () => {
  const { home, files } = await recorded();
  await change(files, segment, (bytes) => bytes.fill(7, frames(bytes)[2]! + 8, frames(bytes)[2]! + 20));
  await salvageJournal(home, "fleet-a");
  const fleet = "/home/fleets/fleet-a";
  await files.rename(journalFolder, join(fleet, "journal.next"));
  const repository = await openRepository(home, "fleet-a");
  assert.equal(repository.versions().length, 3);
  await repository.close();
});
