/** Drops tensors, collects, recovers and keeps, in a process that a test kills. Prints each step when it begins. */
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { rebuildVersion } from "../../../../../server/learning/replay/rebuild-on-demand.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";

const [, , path] = process.argv as [string, string, string];
const fleet = "cars";
const say = (step: string): void => {
  process.stdout.write(`${JSON.stringify({ step })}\n`);
};
const home = await openNodeHome(path);
const fleets = openFleets(home, rebuildVersion);
const operations = localOperations({ home, fleets, version: "test" });
const repository = await fleets.get(fleet);
for (;;) {
  say("drop");
  await operations.dropTensors({ fleet });
  say("collect");
  await repository.collect(await repository.planCollection());
  say("recover");
  await repository.recover(repository.resolve("sums:2").versionId);
  say("keep");
  await operations.keepTensors({ fleet, model: "sums:1" });
}
