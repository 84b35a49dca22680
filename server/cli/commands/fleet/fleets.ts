/** `stemma fleet status|watch|average|simulate`: all devices of a fleet and its rollouts, now or as they change. */
import { StemmaError } from "../../../../shared/errors.js";
import { headOfRollout } from "../../../fleet/rollout/rollout-text.js";
import { describeCounts, describeRuns, isOpenRollout } from "../../fleet-screen/fleet-text.js";
import { throwIfHungUp } from "../../context.js";
import { plain } from "../../plain-command.js";
import { average } from "./average.js";
import { addFleetSimulateCommand } from "./simulate.js";

const status = plain(null, {
  name: "status",
  about: "how many devices are there, what they run, and which rollouts are open",
  run: async (_, { call }) => {
    const [devices, rollouts, authorities] = await Promise.all([
      call("devices"),
      call("rollouts"),
      call("authorities"),
    ]);
    return { devices, rollouts, authorities };
  },
  print: ({ devices, rollouts, authorities }, _, { fleet, output }) => {
    const warnings = authorities.flatMap((each) => each.warnings);
    const open = rollouts.filter(isOpenRollout);
    const unserved = devices.filter(({ state, doubt }) => state === "quarantined" || doubt !== undefined);
    return {
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
    };
  },
});

const watch = plain(null, {
  name: "watch",
  about: "a live screen of devices, rollouts and transfers",
  options: { plain: "lines instead of a screen, on a terminal too" },
  help: `
On a terminal a live screen: arrow keys choose a device, Enter opens its page, Esc goes back,
q or Ctrl-C ends. Elsewhere, or with --plain, a line for each event; with -o json one object.

  stemma fleet watch
  stemma fleet watch --plain | grep refused
`,
  run: async ({ plain: isPlain }, { call, fleet, operations, options, output, signal }) => {
    if ((await call("health")).mqttUrl === undefined)
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        "Only a running server has something to watch, and none runs on this home. Start one with `stemma server`.",
      );
    const { FleetWatch, printEvents } = await import("../../fleet-screen/watch-fleet.js");
    const { stdin, stdout } = process;
    const opened = await operations();
    if (!isPlain && options.output === "table" && stdin.isTTY && stdout.isTTY) {
      await new FleetWatch({ operations: opened, fleet, signal }, stdin, stdout, output.hasColours).run();
      throwIfHungUp(signal);
      return;
    }
    await printEvents({ operations: opened, fleet, signal }, (event, line) => {
      if (options.output === "json") stdout.write(`${JSON.stringify(event)}\n`);
      else output.printText(line);
    });
    throwIfHungUp(signal);
  },
});

export const commands = [status, watch, average, addFleetSimulateCommand];
