/** Reads a file for `stemma replay run`: an exported model's story with its tensors' ids, or a record alone. */
import { readFile, stat } from "node:fs/promises";
import { StemmaError } from "../../shared/errors.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { maxStoryBytes, storyKey } from "../../shared/provenance/exported-story.js";
import { tensorIdOfSource } from "../../shared/tensor/hash.js";
import { readSafetensors } from "../../shared/tensor/safetensors-reader.js";
import type { OperationInput } from "../interface/api/server-operations.js";

export type ReplayFile = Pick<OperationInput<"replayStory">, "story" | "tensors">;

/**
 * Reads a replay's file; undefined where the argument does not name a file, but a model: no name of a model has a dot
 * or a slash. What a file is, is seen by looking into it, whatever its name is.
 * @throws FILE_MISSING, FILE_NOT_REGULAR, SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED,
 *   STORY_INVALID for a file without a story
 */
export async function readReplayFile(argument: string): Promise<ReplayFile | undefined> {
  if (!/[./]/.test(argument)) return undefined;
  const found = await stat(argument).catch(() => undefined);
  // A tag may have a dot.
  if (found === undefined && argument.includes(":") && !argument.includes("/")) return undefined;
  if (found === undefined)
    throw new StemmaError("FILE_MISSING", `There is no file ${argument}. Check the path.`, {
      path: argument,
    });
  const file = await regularFiles().open(argument, "read");
  try {
    // A safetensors file has the length of its header first, which may begin with the same byte.
    const start = Buffer.alloc(9);
    await file.read(start, 0);
    if (start.toString("latin1", 0, 1) === "{" && start.toString("latin1", 8) !== "{")
      return await readRecord(argument, found.size);
    const opened = await readSafetensors(file, argument);
    const story = opened.metadata?.[storyKey];
    if (story === undefined) throw withoutStory(argument, "its metadata have none");
    const ids: { name: string; id: Awaited<ReturnType<typeof tensorIdOfSource>> }[] = [];
    for (const tensor of opened.tensors)
      ids.push({ name: tensor.name, id: await tensorIdOfSource(opened.source(tensor)) });
    return { story, tensors: ids };
  } finally {
    await file.close();
  }
}

async function readRecord(path: string, size: number): Promise<ReplayFile> {
  if (size > maxStoryBytes) throw withoutStory(path, `it has more than ${maxStoryBytes} bytes`);
  return { story: (await readFile(path, "utf8")).trim() };
}

function withoutStory(path: string, reason: string): StemmaError<"STORY_INVALID"> {
  return new StemmaError(
    "STORY_INVALID",
    `${path} has no story that could be replayed: ${reason}. Export the model with \`stemma model recover --file\` ` +
      "from the server where it was trained; a file that another program wrote does not tell how it was made.",
    { path },
  );
}
