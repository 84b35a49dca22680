/**
 * Crashes of the outbox at any moment while it saves models, records receipts, forgets released models and
 * switches the line. Everything acknowledged is stored completely; a model that is not released is never
 * lost.
 */
import { anyRelease, noHooks } from "../../helpers/any-release.js";
import assert from "node:assert/strict";
import { it } from "node:test";
import { CurrentStore } from "../../../agent/current/current-store.js";
import { Activator } from "../../../agent/lines/activator.js";
import { announcementOf } from "../../../agent/outbox/announcement.js";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { activeVersion, orderOf } from "../../../agent/outbox/outbox-state.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import type { Files } from "../../../shared/ports.js";
import { recoverModel } from "../../../shared/recover/recover-model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { keyOfSeed } from "../../../shared/trust/keys.js";
import { testProfile, tinySource } from "../../helpers/agent-fixtures.js";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { freeDisk } from "../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../helpers/manual-clock.js";

const home = "/home/agent";
const profile = testProfile({ activation: "after-receipt" });
const clock = manualClock();

interface Opened {
  readonly outbox: Outbox;
  readonly current: CurrentStore;
  readonly activator: Activator;
  readonly close: () => Promise<void>;
}

/** Seeds each opening differently, so that a new process never reuses the pack names of a killed one. */
let openings = 0;

async function openAll(files: Files): Promise<Opened> {
  const outbox = await Outbox.open({
    files,
    folder: `${home}/outbox`,
    clock,
    random: seededRandom(`outbox ${openings++}`),
    log: silentLog(),
    // So few that the journal is compacted in every round.
    compactAfter: 5,
  });
  const current = await CurrentStore.open(files, home, clock);
  const activator = new Activator({
    releases: anyRelease,
    hooks: noHooks,
    files,
    outbox,
    current,
    profile,
    clock,
    log: silentLog(),
    clockErrorMs: () => null,
    session: () => 1,
    diskUse: () => Promise.resolve(freeDisk),
  });
  await activator.reconcile(["cam"]);
  return {
    outbox,
    current,
    activator,
    close: async () => {
      await outbox.close();
    },
  };
}

type Mark = { readonly what: "saved" | "recorded" | "released" | "activated"; readonly versionId: Hash };

async function work(files: Files, mark: (mark: Mark) => void): Promise<void> {
  const { outbox, activator, close } = await openAll(files);
  let base: Hash | undefined;
  for (let round = 1; round <= 4; round++) {
    const saved = await outbox.saveTrained(tinySource(String(round)), {
      name: "m",
      fleet: "f",
      device: "d",
      line: "cam",
      base,
      metric: null,
      samples: null,
      environment: { backend: "none" },
      approach: "update",
    });
    const { versionId } = saved;
    mark({ what: "saved", versionId });
    for (const kind of ["recorded", "stored", "released"] as const) {
      await outbox.append({
        type: "receipt",
        atMs: 0,
        kind,
        versionId,
        position: round * 3,
        backedUpTo: 0,
        name: "m",
        version: round,
      });
      if (kind !== "stored") mark({ what: kind, versionId });
      if (kind === "recorded") {
        await activator.activateNewest("cam");
        mark({ what: "activated", versionId });
      }
    }
    base = versionId;
    if (round >= 3) await outbox.forget(1, "stored");
  }
  await close();
}

async function check(files: Files, marks: readonly Mark[]): Promise<void> {
  const { outbox, current, activator, close } = await openAll(files);
  const { state } = outbox;
  for (const { what, versionId } of marks) {
    const entry = state.entries.get(versionId);
    if (state.receipts.has(versionId)) continue;
    assert.ok(entry !== undefined, `${what} ${versionId} is gone`);
    if (what === "recorded") assert.notEqual(entry.standing, "pending");
    if (what === "released") assert.equal(entry.standing, "released");
  }
  for (const entry of state.entries.values()) {
    const model = await recoverModel(outbox.objects, entry.versionId, clock);
    assert.equal(model.verifiedRoot, model.record.root);
    await announcementOf(outbox.objects, entry.versionId, keyOfSeed("1".repeat(64)));
  }
  const activated = marks.filter(({ what }) => what === "activated").at(-1);
  const active = await current.active("cam");
  assert.equal(active, activeVersion(state, "cam"), "the link and the journal agree after the start");
  if (active !== undefined) assert.equal(await current.isSound(active), true);
  const order = (versionId: Hash | undefined): number =>
    versionId === undefined ? 0 : orderOf(state, "cam", versionId);
  assert.ok(order(active) >= order(activated?.versionId), "an acknowledged switch is not undone");
  const { sequence } = state.lines.get("cam") ?? { sequence: 0 };
  assert.ok(sequence >= new Set(marks.map(({ versionId }) => versionId)).size);
  // Work continues after the crash.
  await activator.activateNewest("cam");
  const next = await outbox.saveTrained(tinySource("9"), {
    name: "m",
    fleet: "f",
    device: "d",
    line: "cam",
    base: active,
    metric: null,
    samples: null,
    environment: { backend: "none" },
  });
  assert.equal(next.record.sequence, sequence + 1);
  await close();
}

it("keeps every acknowledged model after a crash at any moment", async () => {
  await checkCrashStates<Mark>({ name: "outbox, slots and links", run: work, check });
});
