/** What happens while rules are applied is seen: whatever is retired, a plan of that very moment retires, too. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RepositoryContext } from "../../../../../../server/storage/repository/context.js";
import type { FleetRepository } from "../../../../../../server/storage/repository/fleet-repository.js";
import { planNow } from "../../../../../../server/storage/repository/retention/plan-versions.js";
import { rulesOf } from "../../../../../../server/storage/repository/retention/rules-in-force.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import { testSeed } from "../../../../../helpers/crash-states.js";
import { seededNumbers } from "../../../../../helpers/manual-clock.js";
import { memoryHome, openRepository } from "../harness.js";
import { fleetScope, growChain } from "./grown-chain.js";

const rules = [
  "heads and bases for ever, else 2 days",
  "heads and release bases for ever, else 1 day, then one a week",
  "nothing",
  "heads and bases for ever, else 1 day, then one a month",
];

/** Every retirement by a rule, against a plan over the facts before it. */
async function retiredAgainstPlans(repository: FleetRepository, nowMs: number): Promise<number> {
  const state = emptyState();
  const records = new Map(
    repository.versions({ includeRetired: true }).map(({ versionId, record }) => [versionId, record]),
  );
  const context = { state, records } as unknown as RepositoryContext;
  let retired = 0;
  for await (const { position, fact } of repository.journal.entries(0)) {
    if (fact.type === "retired" && fact.because.startsWith("retention")) {
      const plan = planNow(context, rulesOf(context, undefined), nowMs, { busy: undefined });
      const ids = new Set<Hash>(plan.retire.map(({ version }) => version.versionId));
      assert.ok(ids.has(fact.versionId), `at ${position}: ${JSON.stringify(fact)}`);
      retired++;
    }
    applyFact(state, position, fact);
  }
  return retired;
}

test("an application that rules overtake again and again says how many versions it left", async () => {
  const made = await memoryHome();
  const repository = await openRepository(made.home, "fleet-a");
  await growChain(repository, made, "soh", { days: 12, layers: 1 });
  await repository.retention.set(fleetScope, rules[0]!);
  let isDone = false;
  const overtake = async (): Promise<void> => {
    for (let n = 0; !isDone; n++) await repository.retention.set(fleetScope, `${2 + (n % 3)} days`);
  };
  const apply = repository.retention.apply({ batchSize: 1 }).finally(() => {
    isDone = true;
  });
  const [{ retired, kept }] = await Promise.all([apply, overtake()]);
  // The longest of the rules keeps five.
  assert.ok(kept > 5, `only ${kept} are left: it was not overtaken`);
  assert.equal(kept, repository.versionCount());
  assert.equal(kept + retired.length, 12);
  await repository.close();
});

test("versions that are held, tagged, retired or built on while rules are applied", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  let retired = 0;
  for (let run = 0; run < 10; run++) {
    const made = await memoryHome();
    const repository = await openRepository(made.home, "fleet-a");
    const chain = await growChain(repository, made, "soh", { days: 12, layers: 1 });
    await repository.retention.set(fleetScope, rules[below(rules.length)]!);
    const some = (): Hash => chain[below(chain.length)]!.summary.versionId;
    const changes: readonly (() => Promise<unknown>)[] = [
      () => repository.hold(some(), "incident"),
      () => repository.tag("soh", "good", some()),
      () => repository.retire(some(), "a person"),
      () => repository.retention.set(fleetScope, rules[below(rules.length)]!),
      () => repository.append({ type: "assigned", atMs: 1, device: "car", line: "l", versionId: some() }),
    ];
    const others = async (): Promise<void> => {
      for (let n = 0; n < 4; n++) {
        for (let turns = below(6); turns > 0; turns--)
          await new Promise<void>((resolve) => {
            setImmediate(resolve);
          });
        // A version that was retired in this moment refuses.
        await changes[below(changes.length)]!().catch(() => undefined);
      }
    };
    const [{ nowMs }] = await Promise.all([
      repository.retention.apply({ batchSize: 1 + below(3) }),
      others(),
    ]);
    retired += await retiredAgainstPlans(repository, nowMs).catch((error: unknown) => {
      throw new Error(`seed ${seed}, run ${run}`, { cause: error });
    });
    await repository.close();
  }
  assert.ok(retired > 10, `${retired} retired`);
});
