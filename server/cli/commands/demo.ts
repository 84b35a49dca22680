/**
 * `stemma demo` (what `npm start` runs): a server and a small fleet, from the first training to exact
 * recovery.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus } from "../../../shared/errors.js";
import { withContext } from "../context.js";

interface DemoChoices {
  readonly stay: boolean;
  readonly clean: boolean;
  readonly rounds: number;
  readonly agent?: string;
}

export function defineDemoCommand(command: Command): void {
  command
    .option("--stay", "keep the server running at the end, until Ctrl-C", false)
    .option("--clean", "remove the demo's folder and stop", false)
    .option("--rounds <n>", "fine-tunes of every line", Number, 3)
    .option("--agent <file>", "run the agents from this executable (default: from this program)")
    .action(async (choices: DemoChoices, command: Command) =>
      withContext(command, async ({ output, signal }) => {
        // The demo ignores STEMMA_HOME: its home is .stemma-demo unless --home names another.
        const named = command.optsWithGlobals<{ home?: string }>().home;
        const home = resolve(named ?? ".stemma-demo");
        const { cleanDemo } = await import("../demo/demo-home.js");
        if (choices.clean) {
          const removed = await cleanDemo(home);
          output.print({
            data: { home, removed },
            names: [home],
            text: removed ? `removed ${home}` : `${home} does not exist`,
          });
          return;
        }
        const { runDemo } = await import("../demo/run-demo.js");
        const { rounds, stay, agent } = choices;
        const report = await runDemo({ home, rounds, stay, agent: agent && resolve(agent), signal, output });
        if (!report.allExact) process.exitCode = exitStatus.verification;
      }),
    );
}
