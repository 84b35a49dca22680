/** Confirmations: a version is reported as stored and released only after it was read back completely. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  startConfirmations,
  type ConfirmationParts,
  type ReleasePolicy,
} from "../../../../../server/fleet/ingest/uploads/confirmations.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const hash = (at: number): Hash => at.toString(16).padStart(64, "0") as Hash;

/** Confirmations over a fake repository that has only states; `confirm` may be delayed or fail. */
function confirmationsUnderTest(
  policy: ReleasePolicy,
  options: {
    readonly maxConcurrent?: number;
    readonly bytes?: number;
    readonly confirm?: (id: Hash) => Promise<void>;
  } = {},
) {
  const states = new Map<Hash, VersionSummary["state"]>();
  const reported: string[] = [];
  let backedUpTo = 0;
  let running = 0;
  let maxRunning = 0;
  const summary = (versionId: Hash): VersionSummary =>
    ({
      versionId,
      state: states.get(versionId),
      position: Number(BigInt(`0x${versionId}`)),
      tensorBytes: options.bytes ?? 1,
    }) as VersionSummary;
  const parts: ConfirmationParts = {
    repository: {
      get: (id) => (states.has(id) ? summary(id) : undefined),
      select: (_, { until = Infinity } = {}) =>
        [...states.keys()].map(summary).filter(({ position }) => position < until),
      backedUpTo: () => backedUpTo,
      confirmStored: async (id) => {
        running++;
        maxRunning = Math.max(maxRunning, running);
        try {
          await options.confirm?.(id);
        } finally {
          running--;
        }
        states.set(id, "stored");
        return summary(id);
      },
      release: (id) => {
        states.set(id, "released");
        return Promise.resolve(summary(id));
      },
    },
    log: silentLog(),
    maxConcurrent: options.maxConcurrent ?? 2,
    maxConcurrentBytes: 10,
    releasePolicyOf: () => policy,
    onStored: ({ versionId }) => {
      reported.push(`stored ${Number(BigInt(`0x${versionId}`))}`);
    },
    onReleased: ({ versionId }) => {
      reported.push(`released ${Number(BigInt(`0x${versionId}`))}`);
    },
    onDamaged: (versionId) => {
      reported.push(`damaged ${Number(BigInt(`0x${versionId}`))}`);
    },
  };
  const confirmations = startConfirmations(parts);
  return {
    confirmations,
    reported,
    states,
    add: (at: number) => {
      states.set(hash(at), "recorded");
      confirmations.add(hash(at));
    },
    backUpTo: (position: number) => {
      backedUpTo = position;
      confirmations.backedUp();
    },
    maxRunning: () => maxRunning,
  };
}

describe("confirmations", () => {
  it("store, then release, each reported once and in this order", async () => {
    const { confirmations, reported, add } = confirmationsUnderTest("stored", { maxConcurrent: 1 });
    add(1);
    confirmations.add(hash(1));
    add(2);
    confirmations.add(hash(2));
    assert.equal(confirmations.waiting, 2, "each once");
    await confirmations.idle();
    assert.equal(confirmations.waiting, 0);
    assert.deepEqual(reported.splice(2), ["stored 2", "released 2"]);
    assert.deepEqual(reported, ["stored 1", "released 1"]);
    confirmations.add(hash(1));
    await confirmations.idle();
    assert.deepEqual(reported, ["stored 1", "released 1"], "what is released is left alone");
  });

  it("report a version retired while it was read as neither complete nor damaged", async () => {
    const started = confirmationsUnderTest("stored", {
      confirm: (id) => {
        if (id !== hash(1)) return Promise.resolve();
        started.states.set(id, "retired");
        return Promise.reject(new StemmaError("MODEL_RETIRED", "gone"));
      },
    });
    started.add(1);
    started.add(2);
    await started.confirmations.idle();
    assert.deepEqual(started.reported, ["stored 2", "released 2"]);
  });

  it("release only what a backup covers, if the policy requires one", async () => {
    const { confirmations, reported, add, backUpTo } = confirmationsUnderTest("backed-up", {
      maxConcurrent: 1,
    });
    add(1);
    add(7);
    await confirmations.idle();
    assert.deepEqual(reported, ["stored 1", "stored 7"]);
    // It holds what is before this position, so nothing of these.
    backUpTo(1);
    await confirmations.idle();
    assert.deepEqual(reported, ["stored 1", "stored 7"]);
    backUpTo(5);
    await confirmations.idle();
    assert.deepEqual(reported, ["stored 1", "stored 7", "released 1"]);
  });

  it("resume what an ended process left: models not read back, and those that the policy releases now", async () => {
    for (const [policy, expected] of [
      ["stored", ["released 2", "stored 1", "released 1"]],
      ["backed-up", ["stored 1"]],
    ] as const) {
      const { confirmations, reported, states } = confirmationsUnderTest(policy, { maxConcurrent: 1 });
      states.set(hash(2), "stored");
      states.set(hash(1), "recorded");
      states.set(hash(3), "released");
      confirmations.resume();
      await confirmations.idle();
      assert.deepEqual(reported, expected);
    }
  });

  it("never release a model that was not found complete", async () => {
    const { confirmations, reported, add, states } = confirmationsUnderTest("stored", {
      confirm: (id) =>
        id === hash(1) ? Promise.reject(new StemmaError("ROOT_MISMATCH", "wrong")) : Promise.resolve(),
    });
    add(1);
    add(2);
    await confirmations.idle();
    assert.deepEqual(
      reported.filter((one) => one.endsWith("1")),
      ["damaged 1"],
    );
    assert.equal(states.get(hash(1)), "recorded");
    assert.equal(states.get(hash(2)), "released");
  });

  it("do not report damage when the journal has stopped", async () => {
    const { confirmations, reported, add } = confirmationsUnderTest("stored", {
      confirm: () => Promise.reject(new StemmaError("JOURNAL_STOPPED", "stopped")),
    });
    add(1);
    await confirmations.idle();
    assert.deepEqual(reported, []);
  });

  it("do not report damage when a storage tier cannot be reached", async () => {
    const { confirmations, reported, add } = confirmationsUnderTest("stored", {
      confirm: () => Promise.reject(new StemmaError("TIER_UNREACHABLE", "stopped")),
    });
    add(1);
    await confirmations.idle();
    assert.deepEqual(reported, []);
  });

  it("run few at a time, by number and bytes; a large model runs alone", async () => {
    const small = confirmationsUnderTest("stored", {
      maxConcurrent: 3,
      confirm: () =>
        new Promise((resolve) => {
          setImmediate(resolve);
        }),
    });
    for (let at = 1; at <= 9; at++) small.add(at);
    await small.confirmations.idle();
    assert.equal(small.maxRunning(), 3);
    const large = confirmationsUnderTest("stored", {
      maxConcurrent: 3,
      bytes: 11,
      confirm: () =>
        new Promise((resolve) => {
          setImmediate(resolve);
        }),
    });
    for (let at = 1; at <= 4; at++) large.add(at);
    await large.confirmations.idle();
    assert.equal(large.maxRunning(), 1);
    assert.equal(large.reported.length, 8);
  });

  it("end with what is under way, and begin nothing more", async () => {
    let finish = (): void => undefined;
    const started = confirmationsUnderTest("stored", {
      maxConcurrent: 1,
      confirm: () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    });
    started.add(1);
    started.add(2);
    let isClosed = false;
    const closing = started.confirmations.close().then(() => {
      isClosed = true;
    });
    started.add(3);
    await new Promise(setImmediate);
    assert.equal(isClosed, false);
    finish();
    await closing;
    assert.deepEqual(started.reported, ["stored 1", "released 1"]);
    await started.confirmations.idle();
  });
});
