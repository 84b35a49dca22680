/**
 * A home that was put back to an older copy of its files: devices that have seen what is missing refuse it until
 * that is declared, once.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { judgeHistory, type ServerHistory } from "../../../../../agent/session/server-history.js";
import { HistoryProofs } from "../../../../../server/fleet/ingest/sessions/history-proofs.js";
import { declareRestore } from "../../../../../server/storage/repository/declare-restore.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome, type Home } from "../../../../../server/storage/repository/home.js";
import type { JournalHead } from "../../../../../shared/journal/journal.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { memoryHome, modelOf, openRepository, tensorsOf, type TestHome } from "./harness.js";

async function copyTree(files: Files, from: string, to: string): Promise<void> {
  if ((await files.stat(from))?.kind === "folder") {
    await files.makeFolder(to);
    for (const name of await files.list(from)) await copyTree(files, join(from, name), join(to, name));
    return;
  }
  const file = await files.open(to, "create");
  await file.write(await files.read(from), 0);
  await file.close();
}

async function saveModels(home: Home, { ports }: TestHome, names: readonly string[]): Promise<JournalHead> {
  const repository = await openRepository(home, "fleet-a");
  for (const name of names) {
    ports.clock.advance(1000);
    await repository.save(modelOf(tensorsOf(name, 1, 4)), { name });
  }
  const head = repository.journal.head();
  await repository.close();
  return head;
}

async function enrol(home: Home, { ports }: TestHome, device: string): Promise<void> {
  const repository = await openRepository(home, "fleet-a");
  ports.clock.advance(1000);
  await repository.append({
    type: "enrolled",
    atMs: ports.clock.now(),
    device,
    generation: repository.nextGeneration(device),
    publicKey: "k",
    tokenHash: "t",
    profile: "generic",
    lines: ["line"],
  });
  await repository.close();
}

/** How a device that has seen `seen` judges the server on this home. */
async function judged(
  home: Home,
  seen: JournalHead,
  knownRestores: readonly Hash[] = [],
): Promise<ServerHistory> {
  const repository: FleetRepository = await openRepository(home, "fleet-a");
  try {
    const proofs = new HistoryProofs(repository);
    const birth = { seenJournalLength: seen.length, seenJournalRoot: seen.root };
    return judgeHistory({ seen, knownRestores }, await proofs.welcome(birth));
  } finally {
    await repository.close();
  }
}

test("a home that was put back is refused until that is declared, and each declaration explains one loss", async () => {
  const made = await memoryHome();
  const { home, files, ports } = made;
  await saveModels(home, made, ["a", "b"]);
  ports.clock.advance(500);
  const copiedAtMs = ports.clock.now();
  await copyTree(files, join("/home", "fleets"), "/copy/fleets");
  for (const name of ["format.json", "server-key.json"])
    await copyTree(files, join("/home", name), join("/copy", name));
  const seen = await saveModels(home, made, ["c", "d"]);
  await home.close();

  const old = await openHome("/copy", ports);
  assert.equal((await judged(old, seen)).verdict, "rewritten");
  await enrol(old, made, "van");
  const grown = await saveModels(old, made, ["e", "f", "g", "h"]);
  assert.ok(grown.length > seen.length);
  assert.equal((await judged(old, seen)).verdict, "rewritten");

  for (const wrong of [
    {},
    { position: 1, copiedAtMs },
    { position: -1 },
    { position: 1.5 },
    { position: 99 },
  ])
    await assert.rejects(declareRestore(old, "fleet-a", wrong), { code: "USAGE" });
  await assert.rejects(declareRestore(old, "fleet-b", { position: 0 }), { code: "NOT_FOUND" });
  const dry = await declareRestore(old, "fleet-a", { copiedAtMs, dryRun: true });
  assert.equal((await judged(old, seen)).verdict, "rewritten", "nothing was declared");
  const report = await declareRestore(old, "fleet-a", { copiedAtMs });
  assert.deepEqual({ ...dry, declared: true }, report);
  assert.deepEqual([report.position, report.length], [2, grown.length]);
  assert.deepEqual(report.enrolledSince, ["van"], "a lost enrolment may have had its generation");
  assert.ok((report.beforeMs ?? 0) < copiedAtMs && (report.afterMs ?? 0) > copiedAtMs);

  const repository = await openRepository(old, "fleet-a");
  assert.equal(repository.backedUpTo(), 0, "no backup holds anything");
  assert.ok(repository.nextGeneration("van") > 2 && repository.nextGeneration("new") > 2);
  await repository.close();
  const restored = await judged(old, seen);
  assert.ok(restored.verdict === "restored");
  assert.equal(restored.position, 2);

  // The same declaration explains nothing again: the home is put back once more, after it.
  await copyTree(files, "/copy/fleets", "/second/fleets");
  for (const name of ["format.json", "server-key.json"])
    await copyTree(files, join("/copy", name), join("/second", name));
  const later = await saveModels(old, made, ["i"]);
  assert.equal((await judged(old, later, restored.learned)).verdict, "continued");
  await old.close();
  const second = await openHome("/second", ports);
  await saveModels(second, made, ["j", "k", "l"]);
  assert.equal((await judged(second, later, restored.learned)).verdict, "rewritten");
  await second.close();
});
