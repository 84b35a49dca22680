/** `stemma replay spot-check`: runs some segments of a device's training again, chosen at random. */
import { formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { SpotCheckReport } from "../../../interface/api/models/spot-check-schemas.js";
import { plain } from "../../plain-command.js";
import { describeSpotCheck } from "../../verdict-text.js";
import { nameOf } from "../../version-text.js";

const spotCheck = plain("spotCheck", {
  name: "spot-check",
  about: "run some segments of a device's training again, chosen at random",
  takes: { model: "name, name:version, name:tag or id" },
  options: { segments: "<n>", maxMinutes: "<n>" },
  help: `
A device whose line has spotChecks in agent.json commits to the states of each training before
it announces the model. The server chooses segments at random, writes down which, asks the
device for the states that they begin with, and runs them again:

  spot-checked   each gave the state that the device committed to; this proves nothing of the
                 others, and the chance that a wrong one was missed is printed
  refuted        a segment gives another state, or the ends are not those of the model; where the
                 device helps, with the step and the layers in which it parts from this server
  not available  the device does not have the states any more
  waits          the device is not connected; run the command again when it is

Until the chosen segments are given, no others are chosen. Both ends are always looked at: the
first state is made here, and the last must have the weights of the model. A spot check frees
nothing: the device keeps its copy as long as it would without.

  stemma replay spot-check pack-soh:3 --segments 10

Status 4: refuted; 5: not available, or the device has yet to answer.
`,
  run: async ({ model, ...asked }, { call, output }) => {
    output.progress(`running segments of ${model} again`);
    const report = await call("spotCheck", { model, ...asked });
    output.endProgress();
    output.print({
      data: report,
      names: [report.versionId],
      text: output.wrap(linesOf(report)),
    });
    endWith(report);
  },
});

function linesOf(report: SpotCheckReport): readonly string[] {
  const { everySteps, steps, workMs, segments, outcome } = report;
  const wasRun = outcome === "passed" || outcome === "refuted";
  return [
    `${nameOf(report)} ${describeSpotCheck(report)}`,
    ...(everySteps === undefined || steps === undefined
      ? []
      : [`  segments of ${everySteps} of ${counted(steps, "step")}: ${segments.join(", ") || "none"}`]),
    ...(workMs === undefined || !wasRun ? [] : [`  run again in ${formatDuration(workMs)}`]),
  ];
}

/** @throws REPLAY_REFUTED, REPLAY_INCOMPLETE */
function endWith(report: SpotCheckReport): void {
  const what = nameOf(report);
  if (report.outcome === "refuted")
    throw new StemmaError(
      "REPLAY_REFUTED",
      `Refuted by a spot check: ${what}. Do not trust how it says that it was made; \`stemma replay run ${what}\` ` +
        "repeats all of it.",
    );
  if (report.outcome === "passed") return;
  throw new StemmaError(
    "REPLAY_INCOMPLETE",
    report.outcome === "asked"
      ? `Not checked yet: ${what}. Run the command again when its device is connected.`
      : `Not checked: ${what}. Its device did not give what was asked for; \`stemma replay run ${what}\` repeats ` +
          "the whole training.",
  );
}

export const commands = [spotCheck];
