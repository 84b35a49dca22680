/** Errors of averages: models that are not of one form, and choices that leave too few of them. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

const wrongUse = errorOf("USAGE");
const refused = errorOf("AVERAGE_REFUSED");

type Named = Pick<VersionSummary, "name" | "version">;
export const titleOf = ({ name, version }: Named): string => `${name}:${version}`;

// The call.
export const tooFewModels = (count: number): StemmaError =>
  wrongUse(`An average is of at least two models, and ${count} is named. Name more.`);
export const tooManyModels = (count: number, most: number): StemmaError =>
  refused(
    `An average is of at most ${most} models, and these are ${count}. Name fewer, or narrow the selection with labels.`,
  );
export const namedTwice = (base: Named): StemmaError =>
  wrongUse(
    `${titleOf(base)} is named twice. Name each once, and give it a weight where it is to count more.`,
  );
export const rulesMixed = (): StemmaError =>
  wrongUse("Weights belong to the rule weighted, and a trimmed share to the rule trimmed. Give one of them.");
export const weightsUnfit = (weights: number, models: number): StemmaError =>
  wrongUse(
    `Weights: ${weights}, models: ${models}. Give a weight from 0.000001 to 2^53 for each model, in their order.`,
  );
export const trimUnfit = (trim: number | undefined, models: number): StemmaError =>
  wrongUse(
    `${trim === undefined ? "The rule trimmed needs a share to trim" : `Of ${models} models the share ${trim} trims none, or all`}. With ${models} models it takes ${models < 3 ? "another rule" : `a share from ${Math.ceil(1000 / models) / 1000} to below 0.5`}.`,
  );

// The models.
export const otherForm = (base: Named, first: Named, difference: string): StemmaError =>
  new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `${titleOf(base)} is not of the form of ${titleOf(first)}: ${difference}. Average models of one architecture only.`,
  );
export const isAdapter = (base: Named): StemmaError =>
  refused(
    `${titleOf(base)} is a LoRA adapter, and the average of adapters is not the adapter of the average. Average the merged models: stemma model recover ${titleOf(base)} --merged.`,
  );
export const notAverageable = (tensor: string, dtype: string, base: Named, first: Named): StemmaError =>
  refused(
    `The tensor ${JSON.stringify(tensor.slice(0, 80))} is ${dtype}, which is not averaged, and it is another one in ${titleOf(base)} than in ${titleOf(first)}. Leave one of them out, or import both with the same values there.`,
    { tensor },
  );

// The devices of a line.
export const tooFewDevices = (
  line: string,
  taken: number,
  needed: number,
  leftOut: readonly { readonly device: string; readonly because: string }[],
): StemmaError => {
  const shown = leftOut.slice(0, 8).map(({ device, because }) => `${device}: ${because}`);
  const more = leftOut.length - shown.length;
  const others =
    shown.length === 0 ? "" : ` Left out: ${shown.join("; ")}${more > 0 ? `; and ${more} more` : ""}.`;
  const hint =
    needed > 2 && taken >= 2
      ? " Two cannot tell which of them is wrong: --outliers 0 takes them as they are."
      : "";
  return refused(
    `Of the line ${JSON.stringify(line)} ${taken} of the selected devices can be averaged, and ${needed} are needed.${others}${hint} Select other devices, or wait for their models.`,
    { line },
  );
};
export const fixedTensorsDiffer = (line: string, groups: string): StemmaError =>
  refused(
    `The newest models of the line ${JSON.stringify(line)} differ in tensors that are not averaged, as of whole numbers, and none are those of more than half of the devices: ${groups}. Narrow the selection to devices that have the same.`,
    { line },
  );
export const noMajority = (line: string, forms: string): StemmaError =>
  new StemmaError(
    "ARCHITECTURE_MISMATCH",
    `The newest models of the line ${JSON.stringify(line)} are of several architectures, and none is that of more than half: ${forms}. Narrow the selection to devices of one.`,
    { line },
  );
