/**
 * An agent that a test kills: the real one with a training that takes no time. Events as JSON lines on
 * stderr.
 */
import { readFile } from "node:fs/promises";
import { agentLog } from "../../../agent/agent-log.js";
import { startAgent } from "../../../agent/main.js";
import { fakeTraining, testProfile } from "../../helpers/agent-bench.js";

const [home = "", settings = ""] = process.argv.slice(2);
const { config, profile } = JSON.parse(await readFile(settings, "utf8")) as {
  config: Record<string, unknown>;
  profile: Record<string, unknown>;
};
const handle = await startAgent(
  { home, config, profile: { ...testProfile(profile) }, log: agentLog("json", true, process.stdout) },
  { train: fakeTraining({ full: true }).train },
);
process.on("SIGTERM", () => {
  void handle.close().then(() => {
    process.exit(0);
  });
});
