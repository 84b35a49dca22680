/**
 * Stores models as what they follow from, moves old ones to a tier, collects, and brings them back, until it is killed.
 * Prints on stdout what it has done.
 */
import { archiveCoder } from "../../../../../server/storage/archive/archive-coder.js";
import { applyTier } from "../../../../../server/storage/archive/tier-application.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { nodeClock } from "../../../../../shared/adapters/node-ports.js";
import { applyToFleet, planFleet } from "../../../../helpers/archive-fleet.js";

const [, , path, seed] = process.argv as [string, string, string, string];
const say = (fact: object): void => {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
};
const home = await openNodeHome(path);
const repository = await openRepository(home, "fleet-a");
const coder = archiveCoder();

async function apply(ratio: number | null): Promise<void> {
  const plan = await planFleet(repository, { ratio, timeLimitMs: 50 });
  say({ planned: plan.summary.rewrittenTensors });
  const { failed } = await applyToFleet(repository, plan, {
    batchBytes: 8 * 1024,
    collectBytes: 32 * 1024,
    onProgress: ({ done, step }) => {
      say({ done, step });
    },
  });
  say({ failed });
}
async function moveToTier(): Promise<void> {
  const { failed } = await applyTier(
    { repository, tier: "cold", busy: () => new Map() },
    { coder, clock: nodeClock(), freeBytes: () => Promise.resolve(2 ** 40) },
    {
      onProgress: (line) => {
        say({ done: 1, line });
      },
    },
  );
  say({ failed });
}
async function bringBack(): Promise<void> {
  await repository.tiers.bringBack("cold", {
    onProgress: ({ tensors }) => {
      say({ done: tensors });
    },
  });
}
async function collect(): Promise<void> {
  const plan = await repository.planCollection();
  say({ collecting: plan.dead.length });
  await repository.collect(plan);
}

say({ open: true });
const steps = [() => apply(null), moveToTier, collect, bringBack, () => apply(1), moveToTier, bringBack];
for (let step = Number(seed) % steps.length; ; step++) await steps[step % steps.length]!();
