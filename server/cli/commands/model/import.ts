/** `stemma model import`: a model file becomes a version. */
import { basename } from "node:path";
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { ImportReport } from "../../../interface/api/models/import-schemas.js";
import { forceText } from "../../force-option.js";
import { adapterConfigBeside } from "../../adapter-files.js";
import { readBytes, readText, withImport, type NamedPart } from "../../import-files.js";
import { plain, repeated, type Choices, type PlainContext } from "../../plain-command.js";
import { layoutOption, layOutOf } from "../../import-layout.js";
import { describeImport, likelyBasesText } from "../../import-text.js";
import { nameOf } from "../../version-text.js";

const options = {
  name: {
    text: "<name> name of the model; every import under it is a new version",
    required: true,
  },
  base: "<model> the model this one was trained from; only what changed is stored",
  onto: "<model> instead of --base: the file has only some of that model's tensors",
  lease: "<id> instead of --base: the lease of stemma model transfer, which ends with the import",
  arch: "<file> tfjs model.json: gives the tensors an architecture (else kind opaque)",
  layout:
    "<layout> with --arch: pytorch, or a file that says which weight each tensor is (docs/own-models.md); with --base: original, as the base was imported",
  check:
    "<samples> with --layout: save only if the engine gives the outputs of these inputs (.safetensors, .npz)",
  tolerance: "<difference> the largest difference that --check lets pass (1e-5)",
  line: "<line> the line it belongs to",
  meta: repeated("<key=value> typed metadata that queries can use (repeatable)"),
  attach: repeated("<file> a file kept with this version (repeatable)"),
  checkpoint: repeated(
    "<iteration=file> a .safetensors file of the model after that many training steps (repeatable)",
  ),
  optimizer: "<file> a .safetensors file with the optimizer's state after the training",
  as: {
    text: "<kind> file: the file itself, whatever is in it, is what a line delivers",
    choices: ["file"],
  },
  story: { text: "do not read the story in a file that Stemma exported", flags: "--no-story" },
  force: forceText,
  dryRun: "report what would be stored, store nothing",
} as const;

const importing = plain(null, {
  name: "import",
  about: "save a model file of your own; its tensors come back byte for byte",
  takes: {
    file: "a .safetensors file, an index of several (model.safetensors.index.json or pytorch_model.bin.index.json), a TensorFlow.js model.json, a PyTorch state dict, or a Keras model (.keras, .h5)",
  },
  options,
  run: ({ file, ...choices }, context) => importFile(file, choices, context),
  print: ({ report, notes }) => {
    const { summary } = report;
    return {
      data: report,
      notes: [...notes, likelyBasesText(report) ?? []].flat().map((note) => `stemma: note: ${note}`),
      names: summary === undefined ? [] : [nameOf(summary)],
      text:
        summary === undefined
          ? `would be saved as ${describeImport(report)}`
          : `saved as ${nameOf(summary)} (${summary.versionId.slice(0, 12)}), ${describeImport(report)}`,
    };
  },
});

async function importFile(
  file: string,
  {
    name,
    base,
    onto,
    lease,
    arch,
    layout,
    check,
    tolerance,
    line,
    meta,
    attach,
    checkpoint,
    optimizer,
    as,
    story,
    force,
    dryRun,
  }: Choices<unknown, unknown, typeof options>,
  context: PlainContext,
): Promise<Imported> {
  const { operations, fleet } = context;
  const further = await Promise.all(attach.map(readAttached));
  if (as === "file" && (onto ?? arch ?? layout ?? optimizer ?? checkpoint[0]) !== undefined)
    throw keptUnread();
  const adapter =
    as === "file"
      ? { attachment: undefined, notes: [] }
      : await adapterConfigBeside(file, { base, onto, attached: further });
  if (adapter.attachment !== undefined) further.push(adapter.attachment);
  const others = onto ?? as ?? optimizer ?? checkpoint[0];
  const layOut = await layOutOf({ layout, arch, check, tolerance, others }, context).catch(
    (error: unknown) => {
      throw arch === undefined ? error : withArchitectureFile(error, arch);
    },
  );
  const sent = { file, parts: partsOf(checkpoint, optimizer), isKept: as === "file", layOut };
  return await withImport(sent, async (opened) => {
    if (arch !== undefined && opened.architecture !== undefined) throw layersTwice(file);
    const described = arch ?? (opened.architecture === undefined ? undefined : file);
    const { parts } = opened;
    const report = await (
      await operations()
    )
      .import(opened.stream, {
        fleet,
        fileName: file,
        name,
        base,
        onto,
        lease,
        ...layoutOption(layout),
        line,
        metadata: parseAssignments(meta),
        force,
        dryRun,
        ...(story ? {} : { story: "ignore" as const }),
        ...(parts.length === 0 ? {} : { parts: [...parts] }),
        architecture: arch === undefined ? opened.architecture : await readText(arch),
        attachments: [...further, ...opened.rest],
      })
      .catch((error: unknown) => {
        throw described === undefined ? error : withArchitectureFile(error, described);
      });
    return { report, notes: [...opened.notes, ...adapter.notes, ...(report.notes ?? [])] };
  });
}

async function readAttached(path: string): Promise<{ readonly name: string; readonly bytes: Uint8Array }> {
  return { name: basename(path), bytes: await readBytes(path) };
}

function layersTwice(file: string): StemmaError {
  return new StemmaError("USAGE", `${file} describes its layers itself. Leave out --arch.`);
}

function keptUnread(): StemmaError {
  return new StemmaError(
    "USAGE",
    "--as file keeps the file as it is, and nothing in it is read. Leave out --onto, --arch, --layout, --checkpoint " +
      "and --optimizer.",
  );
}

/** A report, and sentences about what of the file was not read. */
interface Imported {
  readonly report: ImportReport;
  readonly notes: readonly string[];
}

/** An error about a model.json, with the name of its file. */
function withArchitectureFile(error: unknown, file: string): unknown {
  return isStemmaError(error) && ["MODEL_JSON_MALFORMED", "LAYER_NOT_ALLOWED"].includes(error.code)
    ? new StemmaError(error.code, `${file}: ${error.message}`, { cause: error })
    : error;
}

/** The files of --checkpoint and --optimizer. @throws USAGE */
function partsOf(checkpoints: readonly string[], optimizer: string | undefined): readonly NamedPart[] {
  const parts = checkpoints.map((text) => {
    const [, iteration, fileName] = /^(\d{1,15})=(.+)$/s.exec(text) ?? [];
    if (iteration === undefined || fileName === undefined)
      throw new StemmaError(
        "USAGE",
        `--checkpoint ${text} is not valid: it needs the number of training steps and a file, such ` +
          "as 200=after-200.safetensors.",
      );
    return { iteration: Number(iteration), fileName };
  });
  return optimizer === undefined ? parts : [...parts, { fileName: optimizer }];
}

export const commands = [importing];
