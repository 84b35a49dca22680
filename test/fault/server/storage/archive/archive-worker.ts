/**
 * Plans and applies storage on a home until it is killed, with a different budget and layout each time and
 * saves in between. Prints on stdout what it has done.
 */
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { applyToFleet, fineTunedFamily, planFleet, saveModels } from "../../../../helpers/archive-fleet.js";

const [, , path, seed] = process.argv as [string, string, string, string];
const say = (fact: object): void => {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
};
const home = await openNodeHome(path);
const repository = await openRepository(home, "fleet-a");
say({ open: true });

const rounds = [
  { ratio: null },
  { ratio: 1 },
  { ratio: 1.6 },
  { ratio: null, layout: "planes" as const },
  { ratio: 1.6, layout: "fixed" as const },
  { ratio: 3 },
  { ratio: "auto" as const },
];
for (let round = Number(seed) % rounds.length; ; round++) {
  const plan = await planFleet(repository, { timeLimitMs: 50, ...rounds[round % rounds.length]! });
  say({ planned: plan.summary.rewrittenTensors });
  const saving =
    round % 3 === 2
      ? saveModels(repository, fineTunedFamily(`new-${seed}-${round}-`, 5000 + round, 1))
      : undefined;
  const report = await applyToFleet(repository, plan, {
    batchBytes: 24 * 1024,
    collectBytes: 96 * 1024,
    onProgress: ({ done, step }) => {
      say({ done, step });
    },
  });
  say({ rewritten: report.rewritten, failed: report.failed });
  await saving;
}
