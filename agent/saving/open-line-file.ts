/** Opens a file that is to be a line's next model: by its form, or as it is where that is what the line delivers. */
import { basename } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { openFileAsItIs } from "../../shared/forms/file-as-it-is.js";
import { openModelFile, type ModelFile } from "../../shared/forms/model-file.js";
import { endingOf, isKeptFile, keptFileOf } from "../../shared/model/kept-file.js";
import { decodeNames } from "../../shared/model/names.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Outbox } from "../outbox/outbox.js";

type StoredVersions = Pick<Outbox, "record" | "leaves" | "objects">;

/** Name of the file that a version is; undefined for a model of tensors. @throws NAMES_INVALID */
async function keptName(outbox: StoredVersions, versionId: Hash): Promise<string | undefined> {
  const { record } = await outbox.record(versionId);
  if (record.kind !== "opaque") return undefined;
  const leaves = await outbox.leaves(record);
  if (!isKeptFile(leaves)) return undefined;
  const names = decodeNames(await outbox.objects.read("names", record.objects.names), leaves.length);
  return keptFileOf({ leaves, names })?.name;
}

/**
 * A file keeps the name of the line's: the device's software opens it by that.
 * @param as `file`: the line's first model is the file itself
 * @throws ARCHITECTURE_MISMATCH where the line delivers something else; what openModelFile and openFileAsItIs throw
 */
export async function openLineFile(
  outbox: StoredVersions,
  { path, line, base, as }: { path: string; line: string; base: Hash | undefined; as: "file" | undefined },
): Promise<ModelFile> {
  if (base === undefined) return await (as === "file" ? openFileAsItIs : openModelFile)(path);
  const name = await keptName(outbox, base);
  if (name === undefined && as === undefined) return await openModelFile(path);
  if (name !== undefined && endingOf(name) === endingOf(path)) return await openFileAsItIs(path, { name });
  const difference =
    name === undefined
      ? "the line's model has tensors, and a file as it is has none. Save one with those tensors"
      : `the line delivers the file ${name}, and ${JSON.stringify(basename(path).slice(0, 80))} ends otherwise. Save ` +
        "one of that ending";
  throw new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${path} does not fit ${line}, whose model ${base.slice(0, 12)} it was compared with: ${difference}, or assign ` +
      "another model to the line on the server.",
    { line, base },
  );
}
