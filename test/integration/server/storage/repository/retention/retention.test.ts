/** Retention rules of a fleet: they persist, protected versions are never retired, and nothing is guessed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { FleetRepository } from "../../../../../../server/storage/repository/fleet-repository.js";
import { restoreBackup } from "../../../../../../server/storage/repository/backup/restore.js";
import { openHome } from "../../../../../../server/storage/repository/home.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import {
  memoryHome,
  modelOf,
  openRepository,
  places,
  seededDraw,
  temporaryFolder,
  tensorsOf,
} from "../harness.js";
import { dayMs, fleetScope, growChain, namesOf } from "./grown-chain.js";

const issueRule = "heads, release bases and holds for ever, else 90 days, then one a week";

for (const [place, makeHome] of places) {
  test(`${place}: rules are facts: the latest of a scope holds after reopening, reindexing and restoring a backup`, async (context) => {
    const made = await makeHome(context);
    const repository = await openRepository(made.home, "fleet-a");
    await repository.as({ who: "ann", through: "command" }).retention.set(fleetScope, "10 days");
    await repository.retention.set(fleetScope, issueRule);
    await repository.retention.set({ of: "line", line: "front" }, "1 day");
    await repository.retention.set({ of: "name", name: "soh" }, "for ever");
    await repository.retention.set({ of: "line", line: "front" }, null);
    const expected = [
      {
        scope: fleetScope,
        rule: "heads, holds, release bases and tags for ever, else 90 days, then one a week",
      },
      { scope: { of: "name", name: "soh" }, rule: "for ever" },
    ];
    const shown = (from: FleetRepository): unknown =>
      from.retention.settings().map(({ scope, rule }) => ({ scope, rule }));
    assert.deepEqual(shown(repository), expected);
    await assert.rejects(repository.retention.set({ of: "line", line: "front" }, null), {
      code: "NOT_FOUND",
    });
    await assert.rejects(repository.retention.set(fleetScope, "90 bananas"), {
      code: "RETENTION_RULE_INVALID",
    });
    await assert.rejects(
      repository.append({ type: "retention", atMs: 1, line: "a", name: "b", rule: null }),
      { code: "FACT_INVALID" },
    );
    await assert.rejects(
      repository.append({ type: "retention", atMs: 1, line: null, name: null, rule: "junk" }),
      { code: "RETENTION_RULE_INVALID" },
    );
    await repository.reindex();
    assert.deepEqual(shown(repository), expected);
    const backup = place === "disk" ? join(await temporaryFolder(context), "backup") : "/backup";
    await repository.backup(backup);
    await repository.close();
    await made.home.close();
    const again = await made.reopen();
    const reopened = await openRepository(again, "fleet-a");
    assert.deepEqual(shown(reopened), expected);
    await reopened.close();
    await again.close();
    const restoredPath = place === "disk" ? join(await temporaryFolder(context), "restored") : "/restored";
    await restoreBackup(backup, restoredPath, made.ports);
    const restored = await openHome(restoredPath, made.ports);
    const fromBackup = await openRepository(restored, "fleet-a");
    assert.deepEqual(shown(fromBackup), expected);
    await fromBackup.close();
    await restored.close();
  });
}

test("versions in use, in transfer or unreleased, and all lines without a rule, stay", async () => {
  const made = await memoryHome();
  const repository = await openRepository(made.home, "fleet-a");
  await repository.append({
    type: "enrolled",
    atMs: 1,
    device: "van",
    publicKey: "k",
    tokenHash: "t",
    profile: "generic",
    lines: ["soh"],
  });
  const ids: Hash[] = [];
  for (let day = 0; day < 8; day++) {
    const { summary } = await repository.save(modelOf(tensorsOf(`van ${day}`, 1, 4)), {
      name: "soh-van",
      device: "van",
      line: "soh",
    });
    ids.push(summary.versionId);
    if (day !== 2) {
      await repository.confirmStored(summary.versionId);
      await repository.release(summary.versionId, "stored");
    }
    made.ports.clock.advance(dayMs);
  }
  const base = (await repository.save(modelOf(tensorsOf("base", 1, 4)), { name: "base" })).summary.versionId;
  await repository.save(modelOf(tensorsOf("base 2", 1, 4)), { name: "base" });
  await repository.append(
    { type: "assigned", atMs: 1, device: "van", line: "soh", versionId: base },
    { type: "assigned", atMs: 2, device: "van", line: "soh", versionId: ids[0]! },
  );
  await repository.append({
    type: "activated",
    atMs: 1,
    versionId: ids[1]!,
    device: "van",
    line: "soh",
    deviceAtMs: 1,
    deviceClockErrorMs: 0,
    session: 1,
  });
  made.ports.clock.advance(dayMs);
  const rule = (text: string): Promise<unknown> => repository.retention.set(fleetScope, text);
  await rule("release bases for ever, else nothing");
  const busy = (): ReadonlyMap<Hash, string> => new Map([[ids[3]!, "van is sending a child of it"]]);
  const forecast = await repository.retention.forecast({ busy, listKept: true });
  assert.deepEqual(
    forecast.keep?.map(({ name, version, reason }) => `${name}:${version} ${reason}`),
    [
      "soh-van:1 in-use",
      "soh-van:2 in-use",
      "soh-van:3 unreleased",
      "soh-van:4 busy",
      "soh-van:8 head",
      "base:1 release-base",
      "base:2 head",
    ],
  );
  const trying = await repository.retention.forecast({
    trying: { scope: { of: "line", line: "soh" }, rule: "for ever" },
  });
  assert.deepEqual(trying.retire, []);
  assert.deepEqual(
    (await repository.retention.forecast({ trying: { scope: fleetScope, rule: null } })).retire,
    [],
  );
  assert.deepEqual(namesOf((await repository.retention.apply({ busy })).retired), [
    "soh-van:5",
    "soh-van:6",
    "soh-van:7",
  ]);
  // Once nothing protects them any more, the next application retires them.
  await repository.append({ type: "revoked", atMs: 3, device: "van", because: "sold" });
  assert.deepEqual(namesOf((await repository.retention.apply()).retired), ["soh-van:2", "soh-van:4"]);
  await repository.close();
});

test("a hold set while rules are applied is kept or refused, never lost", async () => {
  for (let seed = 0; seed < 20; seed++) {
    const draw = seededDraw(`race ${seed}`);
    const made = await memoryHome();
    const repository = await openRepository(made.home, "fleet-a");
    const chain = await growChain(repository, made, "soh", { days: 6, layers: 1 });
    await repository.retention.set(fleetScope, "nothing");
    const wanted = chain[draw(5)]!.summary.versionId;
    const hold = async (): Promise<boolean> => {
      for (let turns = draw(8); turns > 0; turns--)
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
      try {
        await repository.hold(wanted, "incident");
        return true;
      } catch (error) {
        assert.equal((error as { code?: string }).code, "MODEL_RETIRED");
        return false;
      }
    };
    const [held] = await Promise.all([hold(), repository.retention.apply()]);
    assert.equal(repository.get(wanted)?.state === "retired", !held, `seed ${seed}`);
    await repository.close();
  }
});

test("nothing is retired if facts of a newer Stemma may keep something, or a rule cannot be read", async () => {
  const made = await memoryHome();
  const repository = await openRepository(made.home, "fleet-a");
  await growChain(repository, made, "soh", { days: 3, layers: 1 });
  await repository.retention.set(fleetScope, "nothing");
  // As a newer release would write it; this one checks before it writes.
  await repository.journal.append([
    { type: "retention", atMs: 1, line: null, name: "soh", rule: "all that Ann likes" },
  ]);
  await repository.close();
  const again = await openRepository(made.home, "fleet-a");
  await assert.rejects(again.retention.apply(), { code: "RETENTION_RULE_INVALID" });
  await assert.rejects(again.retention.forecast(), { code: "RETENTION_RULE_INVALID" });
  assert.equal(again.versions().length, 3);
  await again.close();
});
