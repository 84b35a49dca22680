/** Applying rules and collecting in one operation, while others collect too. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OperationsContext } from "../../../../server/services/context/operations-context.js";
import { retentionOperations } from "../../../../server/operations/stores/retention-operations.js";
import type { FleetRepository } from "../../../../server/storage/repository/fleet-repository.js";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";

function contextWith(failures: readonly ErrorCode[]): {
  readonly context: OperationsContext;
  readonly done: string[];
} {
  const done: string[] = [];
  const left = [...failures];
  const repository = {
    retention: {
      apply: () => {
        done.push("apply");
        return Promise.resolve({ nowMs: 1, retired: [], kept: 2 });
      },
    },
    planCollection: () => {
      done.push("plan");
      return Promise.resolve({});
    },
    collect: () => {
      const code = left.shift();
      if (code !== undefined) return Promise.reject(new StemmaError(code, "no"));
      done.push("collect");
      return Promise.resolve({ freedBytes: 7 });
    },
  } as unknown as FleetRepository;
  return {
    done,
    context: { fleets: { get: () => Promise.resolve(repository) } } as unknown as OperationsContext,
  };
}

test("nothing is collected unless requested", async () => {
  const { context, done } = contextWith([]);
  assert.equal((await retentionOperations(context).applyRetention({ fleet: "a" })).freedBytes, undefined);
  assert.deepEqual(done, ["apply"]);
});

test("a plan made stale by another collection is made again, a bounded number of times", async () => {
  const twice = contextWith(["PLAN_STALE", "PLAN_STALE"]);
  assert.equal(
    (await retentionOperations(twice.context).applyRetention({ fleet: "a", collect: true })).freedBytes,
    7,
  );
  assert.deepEqual(twice.done, ["apply", "plan", "plan", "plan", "collect"]);
  const always = contextWith(Array<ErrorCode>(9).fill("PLAN_STALE"));
  await assert.rejects(retentionOperations(always.context).applyRetention({ fleet: "a", collect: true }), {
    code: "PLAN_STALE",
  });
  const refused = contextWith(["COLLECTION_REFUSED"]);
  await assert.rejects(retentionOperations(refused.context).applyRetention({ fleet: "a", collect: true }), {
    code: "COLLECTION_REFUSED",
  });
  assert.deepEqual(refused.done, ["apply", "plan"]);
});
