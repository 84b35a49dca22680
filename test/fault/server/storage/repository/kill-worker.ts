/**
 * Works on a home until it is killed: saves, retirements, collections, backups. Prints each result on stdout
 * only after it was acknowledged.
 */
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { hasUses, modelOfSeed, seededDraw } from "./kill-models.js";
import { unhashedModelOf, usesOfSeed } from "../../../../integration/server/storage/repository/harness.js";

const [, , path, backup, seed] = process.argv as [string, string, string, string, string];
const say = (fact: object): void => {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
};
const draw = seededDraw(seed);
const home = await openNodeHome(path);
const repository = await openRepository(home, "fleet-a");
say({ open: true });

async function save(modelSeed: string): Promise<void> {
  const known = repository.versions();
  const base = known.length > 0 && draw(3) > 0 ? known[draw(known.length)] : undefined;
  try {
    const { summary } = await repository.save(unhashedModelOf(modelOfSeed(modelSeed)), {
      name: `m${draw(3)}`,
      ...(base === undefined ? {} : { bases: [base.versionId] }),
      ...(hasUses(modelSeed) ? { uses: usesOfSeed(modelSeed) } : {}),
    });
    say({ recorded: summary.versionId, seed: modelSeed, name: summary.name, version: summary.version });
    if (draw(2) === 0) {
      await repository.confirmStored(summary.versionId);
      say({ stored: summary.versionId });
    }
  } catch (error) {
    if ((error as { code?: string }).code !== "MODEL_RETIRED") throw error;
  }
}

async function retire(): Promise<void> {
  const known = repository.versions();
  const gone = known[draw(known.length)];
  if (known.length < 5 || gone === undefined) return;
  say({ retiring: gone.versionId });
  await repository.retire(gone.versionId, "churn");
  say({ retired: gone.versionId });
}

for (let round = 0; ; round++) {
  await Promise.all([save(`${seed}/${round}/a`), save(`${seed}/${round}/b`), save(`${seed}/${round}/a`)]);
  await retire();
  if (round % 3 === 1) {
    const { freedBytes } = await repository.collect(await repository.planCollection());
    say({ collected: freedBytes });
  }
  if (round % 3 === 2)
    await Promise.all([
      repository.backup(backup).then(({ position }) => {
        say({ backup: position });
      }),
      save(`${seed}/${round}/c`),
    ]);
}
