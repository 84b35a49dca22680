/**
 * An agent process for tests that kill it: the real agent with a fake training that takes no time. Logs JSON
 * lines to standard output.
 */
import { readFile } from "node:fs/promises";
import { openLog } from "../../../shared/adapters/log.js";
import { startAgent } from "../../../agent/main.js";
import { fakeTraining, testProfile } from "../../helpers/agent-fixtures.js";

const [home = "", settings = ""] = process.argv.slice(2);
const { config, profile } = JSON.parse(await readFile(settings, "utf8")) as {
  config: Record<string, unknown>;
  profile: Record<string, unknown>;
};
const handle = await startAgent(
  {
    home,
    config,
    profile: { ...testProfile(profile) },
    log: openLog({ form: "json", level: "debug", stream: process.stdout }),
  },
  { train: fakeTraining({ full: true }).train, checkRecipe: () => undefined },
);
process.on("SIGTERM", () => {
  void handle.close().then(() => {
    process.exit(0);
  });
});
