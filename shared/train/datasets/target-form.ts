/**
 * Defines the targets that a model's outputs are compared with: their kinds, and how a data set declares them. Pure. A
 * data set with one unnamed label has none of these forms: it is a regression or a classification (dataset.ts).
 */
import { StemmaError } from "../../errors.js";

/**
 * - `numbers`: numbers of a shape to predict.
 * - `class`: one class index.
 * - `classes`: a class index for each position of a shape (a sequence, a segmentation mask).
 * - `labels`: several classes, each of which applies (1) or not (0).
 * - `input`: the sample's own input, for autoencoders.
 */
export const targetKinds = ["numbers", "class", "classes", "labels", "input"] as const;
export type TargetKind = (typeof targetKinds)[number];

/** A declared target. The order of the declarations is that of the model's outputs. */
export interface TargetForm {
  /** The name in the samples' `targets`; `label` is the sample's label. */
  readonly name: string;
  readonly kind: TargetKind;
  /** Shape of one sample's target; [] for a class. Of `input`: empty until the input's shape is known. */
  readonly shape: readonly number[];
  /** `class` and `classes`: number of classes; else 0. */
  readonly classes: number;
}

/** Targets of one sample are this many at most. */
export const maxTargets = 16;
export const targetName = /^[A-Za-z0-9_-]{1,64}$/;
/** A declaration, as `--set targets=…` takes it: name, kind, and count or size. */
export const targetPattern =
  /^(?:([A-Za-z0-9_-]{1,64}):)?(number|numbers|class|classes|labels|input)((?::[0-9x]{1,80}){0,2})$/;
/** The count of numbers that follow the kind in a declaration. */
const argumentCounts: Readonly<Record<string, number>> = {
  number: 0,
  numbers: 1,
  class: 1,
  classes: 2,
  labels: 1,
  input: 0,
};

/** The syntax of declarations, for messages. */
export const targetSyntax =
  "NAME:number, NAME:numbers:SIZE, NAME:class:COUNT, NAME:classes:COUNT:SIZE, NAME:labels:COUNT or " +
  "NAME:input, where a SIZE is written as 3 or 64x64";

/**
 * Reads declarations such as "wear:number", "mode:class:5", "mask:classes:4:64x64", "faults:labels:7", "input".
 * @throws RECIPE_PARAMETERS_INVALID
 */
export function parseTargets(declarations: readonly string[]): readonly TargetForm[] {
  const refuse = (declaration: string, problem: string): never => {
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The target "${declaration.slice(0, 100)}" ${problem}. Declare ${targetSyntax}.`,
      { target: declaration },
    );
  };
  const forms = declarations.map((declaration): TargetForm => {
    const [, name = "label", kind = "", list = ""] =
      targetPattern.exec(declaration) ?? refuse(declaration, "is not a declaration of a target");
    const [first = "", second = "", ...more] = list.split(":").slice(1);
    if (list.split(":").length - 1 !== argumentCounts[kind] || more.length > 0)
      refuse(declaration, "does not have the counts and sizes that its kind needs");
    const sizes = (text: string): readonly number[] => {
      const shape = text.split("x").map(Number);
      if (shape.length > 8 || shape.some((size) => !Number.isSafeInteger(size) || size < 1))
        refuse(declaration, `has the size ${text}, which is not 1 to 8 whole numbers above 0`);
      return shape;
    };
    const count = (text: string, min: number): number =>
      Number(text) >= min && Number(text) <= 100_000
        ? Number(text)
        : refuse(declaration, `needs ${min} to 100000 ${kind === "labels" ? "labels" : "classes"}`);
    switch (kind) {
      case "number":
        return { name, kind: "numbers", shape: [1], classes: 0 };
      case "numbers":
        return { name, kind, shape: sizes(first), classes: 0 };
      case "class":
        return { name, kind, shape: [], classes: count(first, 2) };
      case "classes":
        return { name, kind, shape: sizes(second), classes: count(first, 2) };
      case "labels":
        return { name, kind, shape: [count(first, 1)], classes: 0 };
      default:
        return { name, kind: "input", shape: [], classes: 0 };
    }
  });
  const twice = forms.find(({ name }, at) => forms.findIndex((other) => other.name === name) !== at);
  if (twice !== undefined) refuse(twice.name, "is declared twice");
  return forms;
}

/** Numbers of one sample's target as they are stored: one for a class, one for each position of `classes`. */
export function targetLength({ shape }: Pick<TargetForm, "shape">): number {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

/** The shape of the model's output for one sample. */
export function outputShape({ kind, shape, classes }: TargetForm): readonly number[] {
  return kind === "class" || kind === "classes" ? [...shape, classes] : shape;
}

/** A sample's value of a target, or what is kept of it in memory. */
export interface TargetSummary {
  readonly shape: readonly number[];
  readonly isWhole: boolean;
  readonly min: number;
  readonly max: number;
}

export function summaryOf(target: {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}): TargetSummary {
  let min = Infinity;
  let max = -Infinity;
  let isWhole = true;
  for (const value of target.values) {
    if (value < min) min = value;
    if (value > max) max = value;
    isWhole &&= Number.isInteger(value);
  }
  return { shape: target.shape, isWhole, min, max };
}

/** Returns why a value is not one of a declared target, for a message; undefined when it is. */
export function targetProblem(form: TargetForm, value: TargetSummary | undefined): string | undefined {
  const { name, kind, shape, classes } = form;
  if (kind === "input") return undefined;
  if (value === undefined) return name === "label" ? "it has no label" : `it has no target "${name}"`;
  const found = value.shape.join(", ");
  const isOne = targetLength(form) === 1 && targetLength(value) === 1;
  if (!isOne && value.shape.join() !== shape.join())
    return `its target "${name}" has the shape [${found}], and [${shape.join(", ")}] is needed`;
  if ((kind === "class" || kind === "classes") && !(value.isWhole && value.min >= 0 && value.max < classes))
    return (
      `its target "${name}" has numbers from ${value.min} to ${value.max}, and whole numbers from 0 ` +
      `to ${classes - 1} are needed`
    );
  if (kind === "labels" && !(value.isWhole && value.min >= 0 && value.max <= 1))
    return `its target "${name}" has numbers other than 0 and 1`;
  return undefined;
}

/** Declared targets in words. */
export function describeTargets(forms: readonly TargetForm[]): string {
  return forms
    .map(({ name, kind, shape, classes }) => {
      const size = shape.length === 0 ? "" : ` [${shape.join(", ")}]`;
      return kind === "class" || kind === "classes"
        ? `${name}: ${kind === "class" ? "a class" : `classes${size}`} from 0 to ${classes - 1}`
        : kind === "input"
          ? "the input itself"
          : `${name}: ${kind}${size}`;
    })
    .join("; ");
}
