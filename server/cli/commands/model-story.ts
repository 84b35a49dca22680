/** `stemma model story`: how a model was made, without the model, as a file that `stemma replay run` replays. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { withContext, type CommandContext } from "../context.js";
import { refuseExisting } from "../stream-file.js";
import { nameOf } from "../version-text.js";

interface StoryChoices {
  readonly file?: string;
  readonly force: boolean;
}

const help = `
Record, provenance, openings that were not redacted, environment and architecture, as a few
kB of JSON. Whoever has the data, and the base if there is one, can make the model from it:

  stemma model story pack-soh:3 --file soh.story.json
  stemma replay run soh.story.json
`;

export function addModelStoryCommand(model: Command): void {
  model
    .command("story")
    .argument("<model>", "name, name:version, name:tag or id")
    .option("--file <path>", "write it to this file; else it is printed")
    .option("--force", "overwrite a file that exists", false)
    .description("how a model was made, without its tensors, to be replayed elsewhere")
    .addHelpText("after", help)
    .action(async (reference: string, choices: StoryChoices, command: Command) =>
      withContext(command, (context) => storyCommand(reference, choices, context)),
    );
}

/** @throws NOT_FOUND where Stemma did not train it, FILE_EXISTS */
async function storyCommand(
  reference: string,
  { file, force }: StoryChoices,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const path = file === undefined ? undefined : resolve(file);
  if (path !== undefined) await refuseExisting(path, force);
  const answer = await (await operations()).story({ fleet, model: reference });
  if (path !== undefined) await writeDurably(nodeFiles(), path, Buffer.from(`${answer.story}\n`));
  output.print({
    data: { ...answer, file: path ?? null },
    names: [answer.versionId],
    text: path === undefined ? answer.story : `wrote the story of ${nameOf(answer)} to ${path}`,
  });
}
