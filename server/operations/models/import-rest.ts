/** The layout and the rest of a foreign file; the rest is kept only where it and the tensors give the file again. */
import { isStemmaError } from "../../../shared/errors.js";
import { checkFileOfLayout, type LaidOut } from "../../../shared/layouts/file-of-layout.js";
import { layoutName } from "../../../shared/layouts/layout.js";
import type { ModelSource, UnhashedModel } from "../../../shared/model/model.js";
import { restOfFileName } from "../../../shared/model/rest-of-file.js";
import { originalFileOf } from "../../../shared/recover/original-file.js";
import type { ImportOptions } from "../../interface/api/server-operations.js";
import { layoutWithoutArchitecture } from "./model-errors.js";

type Attachments = NonNullable<ImportOptions["attachments"]>;

/**
 * The files to be kept with a model: those that came with it, and of a file that was read here its rest.
 * @param rest reads that
 * @returns a note where a rest does not fit, and is left out
 * @throws MODEL_FILE_MALFORMED, ROOT_MISMATCH for a layout that does not give the tensors of its file; what reading a
 * tensor throws
 */
export async function attachmentsWithRest(
  model: ModelSource | UnhashedModel,
  { attachments = [], onto }: Pick<ImportOptions, "attachments" | "onto">,
  rest: () => Promise<Uint8Array | undefined>,
): Promise<{ readonly attachments: Attachments; readonly notes: readonly string[] }> {
  const others = attachments.filter(({ name }) => name !== restOfFileName);
  if (onto !== undefined && attachments.some(({ name }) => name === layoutName))
    throw layoutWithoutArchitecture();
  // A part of a model has other tensors than its file.
  if (onto !== undefined) return { attachments: others, notes: [] };
  const layout = attachments.find(({ name }) => name === layoutName);
  const laidOut = layout === undefined ? undefined : await requireLayout(model, layout.bytes);
  const given = attachments.find(({ name }) => name === restOfFileName)?.bytes ?? (await rest());
  if (given === undefined) return { attachments: others, notes: [] };
  try {
    for await (const _ of originalFileOf(laidOut ?? model, given).chunks);
  } catch (error) {
    if (!isStemmaError(error, "MODEL_FILE_MALFORMED") && !isStemmaError(error, "ROOT_MISMATCH")) throw error;
    const note =
      "the rest of its file does not fit its tensors and is not kept: it comes back as safetensors";
    return { attachments: others, notes: [note] };
  }
  return { attachments: [...others, { name: restOfFileName, bytes: given }], notes: [] };
}

/** The file's tensors by the layout that came with it, all of which were read and compared. */
async function requireLayout(model: ModelSource | UnhashedModel, layout: Uint8Array): Promise<LaidOut> {
  if (model.architecture === undefined) throw layoutWithoutArchitecture();
  return await checkFileOfLayout(model.sources, layout);
}
