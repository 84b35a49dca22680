/**
 * Grows a fleet, sets a rule and applies it, in a process that a test kills. Prints each result on stdout
 * only after it was acknowledged.
 */
import { nodeHomePorts } from "../../../../../server/storage/repository/node-home.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { modelOf } from "../../../../integration/server/storage/repository/harness.js";
import { modelOfSeed } from "./kill-models.js";

const [, , path, seed, action] = process.argv as [string, string, string, string, "grow" | "apply"];
const say = (fact: object): void => {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
};
const dayMs = 24 * 3_600_000;
let nowMs = Date.parse("2026-01-01T00:00:00Z");
const ports = nodeHomePorts();
const home = await openHome(path, { ...ports, clock: { ...ports.clock, now: () => nowMs } });
const repository = await openRepository(home, "fleet-a");
const versions = 90;

if (action === "grow") {
  for (let day = 0; day < versions; day++) {
    const before = repository.versions().at(-1);
    const { summary } = await repository.save(modelOf(modelOfSeed(`${seed}/${day}`)), {
      name: "soh",
      bases: before === undefined ? [] : [before.versionId],
    });
    if (day % 11 === 3) await repository.hold(summary.versionId, "incident");
    say({ versionId: summary.versionId, seed: `${seed}/${day}` });
    nowMs += dayMs;
  }
  await repository.retention.set({ of: "fleet" }, "bases for ever, else 20 days, then one a week");
} else {
  nowMs += versions * dayMs;
  const { retire } = await repository.retention.forecast();
  say({ going: retire.map(({ versionId }) => versionId) });
  say({
    retired: (await repository.retention.apply({ batchSize: 3 })).retired.map(({ versionId }) => versionId),
  });
  const { freedBytes } = await repository.collect(await repository.planCollection());
  say({ freedBytes });
}
await repository.close();
await home.close();
