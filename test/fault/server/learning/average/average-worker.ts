/** Averages the models of a home again and again, until it is killed; prints each step before it begins. */
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";

const home = await openNodeHome(process.argv[2] ?? "");
const operations = localOperations({ home, fleets: openFleets(home), version: "test" });
for (let trim = 0; ; trim = 0.4 - trim) {
  process.stdout.write(`${JSON.stringify({ step: trim === 0 ? "mean" : "trimmed" })}\n`);
  await operations.mergeModels({
    fleet: "cars",
    models: ["m:1", "m:2", "m:3"],
    name: "average",
    ...(trim === 0 ? {} : { trim }),
  });
}
