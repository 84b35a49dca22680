/** `stemma model story`: how a model was made, without the model, as a file that `stemma replay run` replays. */
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { pathOf, plain } from "../../plain-command.js";
import { refuseExisting } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

/** @throws NOT_FOUND where Stemma did not train it, FILE_EXISTS */
const story = plain("story", {
  name: "story",
  about: "how a model was made, without its tensors, to be replayed elsewhere",
  takes: { model: "name, name:version, name:tag or id" },
  options: {
    file: { text: "<path> write it to this file; else it is printed", read: pathOf },
    force: "overwrite a file that exists",
  },
  help: `
Record, provenance, openings that were not redacted, environment and architecture, as a few
kB of JSON. Whoever has the data, and the base if there is one, can make the model from it:

  stemma model story pack-soh:3 --file soh.story.json
  stemma replay run soh.story.json
`,
  run: async ({ model, file, force }, { call }) => {
    if (file !== undefined) await refuseExisting(file, force);
    const answer = await call("story", { model });
    if (file !== undefined) await writeDurably(nodeFiles(), file, Buffer.from(`${answer.story}\n`));
    return answer;
  },
  print: (answer, { file }) => ({
    data: { ...answer, file: file ?? null },
    names: [answer.versionId],
    text: file === undefined ? answer.story : `wrote the story of ${nameOf(answer)} to ${file}`,
    isVerbatim: file === undefined,
  }),
});

export const commands = [story];
