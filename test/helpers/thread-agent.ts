// A whole agent in a process of its own whose trainings take no time: `node thread-agent.js HOME UNITS-LOG`.
// Says each receipt as one JSON line, after it is durable.
import { startAgent } from "../../agent/main.js";
import { exitWithParent } from "../../shared/cli/exit-with-parent.js";
import type { Log, LogFields } from "../../shared/ports.js";
import { fakeTraining, testProfile } from "./agent-bench.js";

const [home = "", ...lines] = process.argv.slice(2);
const say = (event: string, fields: LogFields = {}): void => {
  process.stdout.write(
    `${JSON.stringify({ event, version: fields["version"], line: fields["line"], text: fields["text"] })}\n`,
  );
};
const log: Log = { debug: () => undefined, info: say, warn: say, error: say, child: () => log };

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
  { train: fakeTraining({ full: true }).train },
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
