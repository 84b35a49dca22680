/** `stemma init`: makes a model repository in a folder. */
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { temporarySuffix, writeDurably } from "../../../shared/files/durable-write.js";
import { fileError } from "../../../shared/files/file-error.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { openNodeHome } from "../../storage/repository/node-home.js";
import { openRepository } from "../../storage/repository/open-repository.js";
import { definePlainCommand, plain, type Printed } from "../plain-command.js";
import {
  defaultFleet,
  entryAt,
  findRepository,
  newRepositoryFile,
  repositoryFile,
  repositoryFolder,
  repositoryIn,
  type Repository,
} from "./find-repository.js";

const declaration = plain(null, {
  name: "init",
  takes: { folder: "[folder]" },
  help: `
Makes FOLDER/.stemma (without FOLDER: in the working folder), where versions, their
files and what they use are stored. The verbs of a model repository find it from any
folder below. Other commands use it with --home FOLDER/.stemma.
`,
  run: ({ folder }) => initialise(resolve(folder ?? ".")),
});

async function initialise(root: string): Promise<Printed> {
  const home = join(root, repositoryFolder);
  await refuseOthers(root, home);
  const known = await repositoryIn(root);
  if (known !== undefined && (await isComplete(known)))
    return answer(root, false, `${root} is a model repository already; nothing was changed`);
  const above = known === undefined ? await findRepository(resolve(root, "..")) : undefined;
  try {
    await mkdir(home, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, "make the folder", home);
  }
  // First: a home without it would be that of a fleet, and the next init would refuse it.
  if (known === undefined) await writeDurably(nodeFiles(), join(home, repositoryFile), newRepositoryFile());
  const opened = await openNodeHome(home);
  try {
    await (await openRepository(opened, defaultFleet)).close();
  } finally {
    await opened.close();
  }
  return {
    ...answer(root, true, `made a model repository in ${home}`),
    notes: above === undefined ? [] : [`stemma: note: it is inside another one, that of ${above.root}`],
  };
}

/** False where an earlier init was killed: this one completes it. */
async function isComplete({ home, fleet }: Repository): Promise<boolean> {
  return (await nodeFiles().stat(join(home, "fleets", fleet))) !== undefined;
}

function answer(root: string, isNew: boolean, text: string): Printed {
  return { data: { root, isNew }, names: [root], text };
}

/** @throws NOT_ALLOWED where `.stemma` is something else, which stays as it is */
async function refuseOthers(root: string, home: string): Promise<void> {
  const refuse = (what: string): StemmaError =>
    new StemmaError("NOT_ALLOWED", `${what} It was left as it is. Choose another folder.`, { path: home });
  if ((await entryAt(root)) === "file") throw refuse(`${root} is a file.`);
  const found = await entryAt(home);
  if (found === undefined || (await repositoryIn(root)) !== undefined) return;
  if (found === "file") throw refuse(`${home} is a file.`);
  if (found === "link") throw refuse(`${home} is a link, and leads to no model repository.`);
  if ((await nodeFiles().list(home)).some((name) => !name.endsWith(temporarySuffix)))
    throw refuse(`${home} has files already, and is not a model repository.`);
}

export const define = (command: Command): Promise<void> => definePlainCommand(command, declaration);
