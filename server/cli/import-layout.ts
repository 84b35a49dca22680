/** `--layout`: the tensors of another tool's file become the weights of an architecture, and `--check` tries them. */
import { StemmaError } from "../../shared/errors.js";
import type { ModelFile } from "../../shared/forms/model-file.js";
import type { LaidOutFile } from "../../shared/layouts/laid-out-file.js";
import type { Planner } from "../../shared/layouts/planned-layout.js";
import type { CommandContext } from "./context.js";
import { readBytes } from "./import-files.js";

/** The options as they are typed. */
export interface LayoutChoices {
  readonly layout?: string | undefined;
  readonly arch?: string | undefined;
  readonly check?: string | undefined;
  readonly tolerance?: string | undefined;
  /** Any of the options that have no place beside these. */
  readonly others?: string | undefined;
}

/** The only layout that is derived. */
const derived = "pytorch";
/** The layout in which the base was imported; the server reads the file in it. */
const layoutOfBase = "original";
const unproved =
  "a file of weights states no padding, epsilon or activation: --check SAMPLES shows whether the engine computes " +
  "the same";

/**
 * @returns the function that lays out a model file; undefined where no layout is asked for
 * @throws USAGE for options that do not go together
 */
export async function layOutOf(
  { layout, arch, check, tolerance, others }: LayoutChoices,
  { signal }: Pick<CommandContext, "signal">,
): Promise<((model: ModelFile) => Promise<LaidOutFile>) | undefined> {
  if (layout === undefined) {
    if ((check ?? tolerance) === undefined) return undefined;
    throw new StemmaError("USAGE", "--check and --tolerance go with --layout. Add it, or leave them out.");
  }
  if (layout === layoutOfBase) {
    if ((arch ?? check ?? tolerance ?? others) === undefined) return undefined;
    throw new StemmaError(
      "USAGE",
      "--layout original is that of --base, and goes without --arch, --check, --tolerance, --onto, --as, --checkpoint " +
        "and --optimizer. Leave them out.",
    );
  }
  if (arch === undefined || others !== undefined)
    throw new StemmaError(
      "USAGE",
      "--layout needs --arch, the model.json whose weights the tensors become, and goes without --onto, --as, " +
        "--checkpoint and --optimizer.",
    );
  const limit = toleranceOf(tolerance);
  const plan = await plannerOf(layout, check !== undefined);
  const { readTopology } = await import("../../shared/layouts/topology-weights.js");
  const { layOutFile } = await import("../../shared/layouts/laid-out-file.js");
  const described = readTopology(await readBytes(arch));
  return async (model) => {
    if (model.architecture !== undefined)
      throw new StemmaError("USAGE", "The file describes its layers itself. Leave out --layout and --arch.");
    const laidOut = await layOutFile(model.file, "The file", {
      described,
      plan: (tensors) => plan(described, tensors),
    });
    if (check === undefined) return { ...laidOut, notes: [...laidOut.notes, unproved] };
    const { checkFile } = await import("./check-outputs.js");
    const note = await checkFile(laidOut, described, { samples: check, tolerance: limit, signal });
    return { ...laidOut, notes: [...laidOut.notes, note] };
  };
}

/** The option of the operation, where the server lays the file out. */
export function layoutOption(layout: string | undefined): { readonly layout?: "original" } {
  return layout === layoutOfBase ? { layout } : {};
}

async function plannerOf(layout: string, isProved: boolean): Promise<Planner> {
  if (layout === derived) {
    const { pytorchLayout } = await import("../../shared/layouts/planned-layout.js");
    return (described, tensors) => pytorchLayout(described, tensors, { isProved });
  }
  const { writtenLayout } = await import("../../shared/layouts/written-layout.js");
  const { parseYaml } = await import("../../shared/cli/parse-yaml.js");
  const text = new TextDecoder().decode(await readBytes(layout));
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (cause) {
    throw new StemmaError(
      "USAGE",
      `The layout ${layout} is not YAML. Name pytorch, or a file in YAML or JSON.`,
      {
        cause,
      },
    );
  }
  return (described, tensors) => writtenLayout(value, described, tensors);
}

/** @throws USAGE */
function toleranceOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text !== "" && Number.isFinite(value) && value >= 0) return value;
  throw new StemmaError("USAGE", "--tolerance is a number that is not negative, such as 1e-5.");
}
