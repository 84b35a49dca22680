/**
 * Reads a model file that Stemma did not train as the next version of a line. It has the architecture and the names of
 * its base, or those of the file from which that was imported with a layout, or, where the base is opaque, the same
 * tensors. A file that does not fit is refused with the difference.
 */
import { StemmaError } from "../../shared/errors.js";
import { decodeArchitecture } from "../../shared/model/architecture.js";
import { keptFileOf } from "../../shared/model/kept-file.js";
import { decodeNames } from "../../shared/model/names.js";
import { layoutIdOf } from "../../shared/layouts/base-layout.js";
import { layoutName } from "../../shared/layouts/layout.js";
import { alone, modelOfBase, type ModelOfBase } from "../../shared/layouts/model-of-base.js";
import type { Attachment } from "../../shared/programs/read-output.js";
import { maxAttachmentBytes } from "../../shared/save/attachment-limit.js";
import { modelSourceOfSafetensors } from "../../shared/save/model-source.js";
import type { ByteFile } from "../../shared/tensor/safetensors-reader.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Outbox } from "../outbox/outbox.js";

type StoredVersions = Pick<Outbox, "record" | "leaves" | "objects">;

export interface LineFile {
  readonly file: ByteFile;
  /** The file's path, for messages. */
  readonly where: string;
  readonly line: string;
  /** The version that the model was trained from; undefined: the line has none. */
  readonly base: Hash | undefined;
  /** Larger models are not held in memory (ImportOptions). */
  readonly holdBytes: number;
}

export type LineModel = ModelOfBase;

/**
 * The model of a file. The file stays open until the model is saved.
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED, ARCHITECTURE_MISMATCH naming what differs from the base,
 * NOT_A_NUMBER naming a tensor, NAMES_INVALID for a file without a safe name, MODEL_FILE_MALFORMED for a base's layout
 */
export async function modelOfLine(outbox: StoredVersions, lineFile: LineFile): Promise<LineModel> {
  const { file, where, base, holdBytes } = lineFile;
  if (base === undefined) {
    const first = await modelSourceOfSafetensors(file, where, { holdBytes });
    keptFileOf(first);
    return alone(first);
  }
  const { objects } = outbox;
  const { record } = await outbox.record(base);
  const leaves = await outbox.leaves(record);
  const { architecture, names } = record.objects;
  const layoutId = layoutIdOf(record);
  return await modelOfBase(
    {
      ...{ file, where, holdBytes },
      misfit: (difference, cause) => misfit(lineFile, difference, cause),
    },
    {
      ...{ leaves, objects },
      described: architecture && {
        architecture: decodeArchitecture(await objects.read("architecture", architecture)),
        names: decodeNames(await objects.read("names", names), leaves.length),
      },
      layout: architecture && layoutId && (await objects.read("attachment", layoutId)),
    },
  );
}

/**
 * The files that are kept with a version, with the layout of its own.
 * @throws SIZE_OVER_LIMIT where they are too large together
 */
export function attachmentsWithLayout(
  attachments: readonly Attachment[],
  { layout }: Pick<LineModel, "layout">,
): readonly Attachment[] {
  if (layout === undefined) return attachments;
  const all = [...attachments, { name: layoutName, bytes: layout }];
  const bytes = all.reduce((sum, one) => sum + one.bytes.length, 0);
  if (bytes <= maxAttachmentBytes) return all;
  throw new StemmaError(
    "SIZE_OVER_LIMIT",
    `The files attached to the version have ${bytes} bytes with the layout of its model file; all together may have ` +
      `${maxAttachmentBytes}. Attach less.`,
  );
}

function misfit({ where, line, base }: LineFile, difference: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${where} does not fit ${line}, whose model ${base?.slice(0, 12) ?? ""} it was compared ` +
      `with: ${difference} Save a model of the same network, or assign another model to the line on the ` +
      "server.",
    { line, base, cause },
  );
}
