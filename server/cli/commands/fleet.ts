/** `stemma fleet status|watch|simulate`: all devices of a fleet and its rollouts, now or as they change. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { headOfRollout } from "../../fleet/rollout/rollout-text.js";
import { withContext, type CommandContext } from "../context.js";
import { addFleetSimulateCommand } from "./fleet-simulate.js";
import { describeCounts, describeRuns, isOpenRollout } from "../fleet-screen/fleet-text.js";

const watchHelp = `
On a terminal a live screen: arrow keys choose a device, Enter opens its page, Esc goes back,
q or Ctrl-C ends. Elsewhere, or with --plain, a line for each event; with -o json one object.

  stemma fleet watch
  stemma fleet watch --plain | grep refused
`;

export function addFleetCommands(fleet: Command): void {
  fleet
    .command("status")
    .description("how many devices are there, what they run, and which rollouts are open")
    .action(async (_: unknown, command: Command) => withContext(command, statusCommand));
  fleet
    .command("watch")
    .option("--plain", "lines instead of a screen, on a terminal too", false)
    .description("a live screen of devices, rollouts and transfers")
    .addHelpText("after", watchHelp)
    .action(async ({ plain }: { plain: boolean }, command: Command) =>
      withContext(command, (context) => watchCommand(plain, context)),
    );
  addFleetSimulateCommand(fleet);
}

async function statusCommand({ output, operations, options: { fleet } }: CommandContext): Promise<void> {
  const opened = await operations();
  const [devices, rollouts, authorities] = await Promise.all([
    opened.devices({ fleet }),
    opened.rollouts({ fleet }),
    opened.authorities({ fleet }),
  ]);
  const warnings = authorities.flatMap((each) => each.warnings);
  const open = rollouts.filter(isOpenRollout);
  const unserved = devices.filter(({ state, doubt }) => state === "quarantined" || doubt !== undefined);
  output.print({
    data: { fleet, devices, rollouts: open, ...(warnings.length === 0 ? {} : { warnings }) },
    names: [fleet],
    text: output.wrap([
      `fleet ${fleet}: ${describeCounts(devices)}`,
      ...describeRuns(devices).map((line) => `  ${line}`),
      ...unserved.map(({ device, state, quarantined, doubt }) =>
        state === "quarantined"
          ? `${device} is quarantined: ${quarantined?.because ?? ""}`
          : `${device} doubts this server: ${doubt?.text ?? ""}`,
      ),
      ...warnings.map((warning) => `warning: ${warning}`),
      ...open.flatMap(headOfRollout),
    ]),
  });
}

async function watchCommand(
  isPlain: boolean,
  { output, operations, options: { fleet, output: form }, signal }: CommandContext,
): Promise<void> {
  const opened = await operations();
  if ((await opened.health()).mqttUrl === undefined)
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "Only a running server has something to watch, and none runs on this home. Start one with `stemma server`.",
    );
  const { FleetWatch, printEvents } = await import("../fleet-screen/watch-fleet.js");
  const { stdin, stdout } = process;
  if (!isPlain && form === "table" && stdin.isTTY && stdout.isTTY) {
    await new FleetWatch({ operations: opened, fleet, signal }, stdin, stdout, output.hasColours).run();
    return;
  }
  await printEvents({ operations: opened, fleet, signal }, (event, line) => {
    stdout.write(`${form === "json" ? JSON.stringify(event) : line}\n`);
  });
}
