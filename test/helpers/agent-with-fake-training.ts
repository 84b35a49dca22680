/**
 * An agent in its own process whose fake training takes no time: `node agent-with-fake-training.js HOME LINE…`.
 * Prints each log event of level info and above as one line of JSON.
 */
import { startAgent } from "../../agent/main.js";
import { exitWithParent } from "../../shared/cli/exit-with-parent.js";
import type { Log, LogFields } from "../../shared/ports.js";
import { fakeTraining, testProfile } from "./agent-fixtures.js";

const [home = "", ...lines] = process.argv.slice(2);
const printEvent = (event: string, fields: LogFields = {}): void => {
  process.stdout.write(
    `${JSON.stringify({ event, version: fields["versionId"], line: fields["line"], text: fields["text"] })}\n`,
  );
};
const log: Log = {
  debug: () => undefined,
  info: printEvent,
  warn: printEvent,
  error: printEvent,
  child: () => log,
};

exitWithParent();
const agent = await startAgent(
  {
    home,
    profile: { ...testProfile({ "link.blockBytes": 16_384 }) },
    log,
    config: {
      format: 1,
      lines: Object.fromEntries(
        lines.map((line) => [
          line,
          {
            recipe: "fake",
            dataset: { reader: "images-generated" },
            schedule: { everySeconds: 0.2, afterSamples: null },
          },
        ]),
      ),
    },
  },
  { train: fakeTraining({ full: true }).train, checkRecipe: () => undefined },
);
process.once("SIGTERM", () => {
  agent.close().then(
    () => {
      process.exit(0);
    },
    () => {
      process.exit(1);
    },
  );
});
