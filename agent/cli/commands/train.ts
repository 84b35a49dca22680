/** `stemma agent train`: fine-tunes a line on request. */
import { currentUser } from "../../../shared/adapters/current-user.js";
import type { Command } from "commander";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { Output } from "../../../shared/cli/output.js";
import type { Trained } from "../../trainer/save-result.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";
import { describeMetric } from "../../../shared/train/result-metadata.js";

const trainingTimeoutMs = 24 * 3600_000;

interface TrainChoices {
  readonly recipe?: string;
  readonly set: readonly string[];
  readonly wait: boolean;
}

export function addTrain(program: Command): void {
  program
    .command("train")
    .argument("<line>")
    .description("fine-tune a line now, also outside its duty hours")
    .option("--recipe <name>", "another recipe than the one set for the line")
    .option("--set <key=value>", "a parameter of the recipe (repeatable)", appendValue, [])
    .option("--no-wait", "return when the training is requested, not when it is done")
    .action(async (line: string, choices: TrainChoices, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const request = {
        do: "train",
        line,
        recipe: choices.recipe,
        parameters: parseAssignments(choices.set),
        user: currentUser(),
        wait: choices.wait,
      };
      const answer = await callRunningAgent(home, "control", request, trainingTimeoutMs);
      const trained = answer as Partial<Trained>;
      new Output(output).print({
        data: answer,
        names: trained.versionId === undefined ? [] : [trained.versionId],
        text: describe(line, trained),
      });
    });
}

function describe(line: string, { versionId, sequence, metric }: Partial<Trained>): string {
  if (versionId === undefined) return `${line} trains as soon as it can`;
  const model = `${line}: model ${sequence} (${versionId.slice(0, 12)})`;
  return metric === undefined ? model : `${model}, ${describeMetric(metric)}`;
}
