/**
 * Describes the form that samples of one line need so that its model can be trained on them. It states the
 * shape of an input, and what a label is. Pure. The agent's intake compares what comes in with it, and the
 * reader `samples` skips what does not have it.
 */
import type { Architecture, LeafLayer } from "../../model/model.js";
import type { Sample } from "./sample-format.js";
import {
  describeTargets,
  summaryOf,
  targetProblem,
  type TargetForm,
  type TargetSummary,
} from "./target-form.js";

/** Classes of a classification whose parameters name no number. */
export const defaultClasses = 10;

export interface SampleForm {
  /** Shape of one input, without a batch dimension; null stands for any size. Absent: any shape. */
  readonly shape?: readonly (number | null)[] | undefined;
  /** Numbers of a label. Absent: any count. */
  readonly targetSize?: number | undefined;
  /** The classes of a classification: labels are whole numbers from 0 to classes − 1. */
  readonly classes?: number | undefined;
  /** Declared targets; `targetSize` and `classes` are then absent. */
  readonly targets?: readonly TargetForm[] | undefined;
}

/** The members of a sample that are compared with a form. */
export type FormOf = Pick<Sample, "shape"> & {
  readonly label?: ArrayLike<number> | undefined;
  readonly targets?: Readonly<Record<string, TargetSummary>> | undefined;
};

/** A sample's form, without its values. */
export function formOf({ shape, label, targets }: Sample): FormOf {
  return {
    shape,
    label,
    targets:
      targets &&
      Object.fromEntries(Object.entries(targets).map(([name, target]) => [name, summaryOf(target)])),
  };
}

const text = (shape: readonly (number | null)[]): string =>
  `[${shape.map((size) => size ?? "any").join(", ")}]`;

/** Returns why a sample does not have a form, for a message; undefined when it has. */
export function misfit({ shape, label, targets }: FormOf, form: SampleForm): string | undefined {
  const wanted = form.shape;
  if (
    wanted !== undefined &&
    !(wanted.length === shape.length && wanted.every((size, axis) => size === null || size === shape[axis]))
  )
    return `its shape is ${text(shape)}, and ${text(wanted)} is needed`;
  if (form.targets !== undefined) {
    const own = label && summaryOf({ shape: [label.length], values: Float32Array.from(label) });
    for (const target of form.targets) {
      const problem = targetProblem(
        target,
        targets?.[target.name] ?? (target.name === "label" ? own : undefined),
      );
      if (problem !== undefined) return problem;
    }
    return undefined;
  }
  if (label === undefined)
    return targets === undefined
      ? "it has no label"
      : "it has targets but no label, and the data set declares no targets (parameters.targets)";
  if (form.targetSize !== undefined && label.length !== form.targetSize)
    return `its label has ${label.length} numbers, and ${form.targetSize} are needed`;
  const first = label[0];
  if (
    form.classes !== undefined &&
    (label.length !== 1 ||
      first === undefined ||
      !Number.isInteger(first) ||
      first < 0 ||
      first >= form.classes)
  )
    return `its label is not a class from 0 to ${form.classes - 1}`;
  return undefined;
}

/** A form in words, such as "shape [10, 3], 1 number to predict". */
export function describeForm({ shape, targetSize, classes, targets }: SampleForm): string {
  const parts = [
    shape === undefined ? "any shape" : `shape ${text(shape)}`,
    targets !== undefined
      ? describeTargets(targets)
      : classes !== undefined
        ? `a class from 0 to ${classes - 1}`
        : targetSize === undefined
          ? "any label"
          : `${targetSize} ${targetSize === 1 ? "number" : "numbers"} to predict`,
  ];
  return parts.join(", ");
}

/** A form with everything that it leaves open taken from a sample that fits it. */
export function narrowedForm(form: SampleForm, sample: FormOf): SampleForm {
  return form.targets === undefined
    ? { ...form, shape: sample.shape, targetSize: sample.label?.length }
    : { ...form, shape: sample.shape };
}

/** Layers whose output has the width of their input. */
const widthKeepers = new Set(["Activation", "Dropout", "Softmax", "ReLU", "LeakyReLU", "BatchNormalization"]);

/**
 * The form that a model with one input and one output takes. Whatever its architecture does not determine
 * stays open.
 * @param classes number of classes where the line is trained as a classification; undefined for a regression
 */
export function formOfArchitecture({ layers, outputs }: Architecture, classes?: number): SampleForm {
  const inputs = layers.filter(({ className }) => className === "InputLayer");
  const batchShape = inputs.length === 1 ? inputs[0]?.config["batch_input_shape"] : undefined;
  const shape = Array.isArray(batchShape)
    ? batchShape.slice(1).map((size: unknown) => (typeof size === "number" ? size : null))
    : undefined;
  if (classes !== undefined) return { shape, targetSize: 1, classes };
  let last: LeafLayer | undefined = outputs.length === 1 ? layers[outputs[0]?.layer ?? -1] : undefined;
  while (last !== undefined && widthKeepers.has(last.className)) last = layers[last.inputs[0]?.layer ?? -1];
  const units = last?.className === "Dense" ? last.config["units"] : undefined;
  return { shape, targetSize: typeof units === "number" ? units : undefined };
}
