/**
 * The operations of a tensor expression, as the code of a fleet's own recipe writes it down: a list, in which each
 * names those before it that it reads. Everything in it is hostile until check-expression.ts has followed it. Pure.
 */
import * as z from "zod";

/** The most operations of an expression. */
export const maxOperations = 1000;
/** The largest extent of an axis, and the largest bound of a whole number that is drawn: float32 has them all. */
const maxSize = 2 ** 24;
/** The most numbers of a constant. */
const maxValues = 2 ** 18;
/** The most axes of a tensor, beside that of the batch. */
export const maxRank = 4;

export const unaryNames = [
  "neg",
  "abs",
  "square",
  "sqrt",
  "exp",
  "log",
  "sigmoid",
  "tanh",
  "relu",
  "softplus",
  "softmax",
  "logSoftmax",
] as const;
/** Two tensors, of which the smaller one is spread over the larger one; comparisons give 0 or 1. */
export const binaryNames = [
  "add",
  "sub",
  "mul",
  "div",
  "maximum",
  "minimum",
  "less",
  "lessEqual",
  "greater",
  "greaterEqual",
  "equal",
] as const;
const comparisons: ReadonlySet<string> = new Set(["less", "lessEqual", "greater", "greaterEqual", "equal"]);
export const isComparison = (op: string): boolean => comparisons.has(op);
export const reductionNames = ["sum", "mean", "max", "min"] as const;
export type UnaryName = (typeof unaryNames)[number];
export type BinaryName = (typeof binaryNames)[number];
export type ReductionName = (typeof reductionNames)[number];

/** The largest index of a tensor: the inputs of the expression come first. */
const source = z.number().int().min(0).max(2000);
const one = { from: z.tuple([source]) };
const two = { from: z.tuple([source, source]) };
/** A number that is finite as float32, which the expression computes with. */
const real = z.number().refine((value) => Number.isFinite(Math.fround(value)), "is not a finite float32");
const size = z.number().int().min(1).max(maxSize);
const shape = z.array(size).max(maxRank);
/** Negative axes count from the last one. */
const axis = z
  .number()
  .int()
  .min(-maxRank)
  .max(maxRank - 1);
const axes = z.array(axis).min(1).max(maxRank);
const borders = z.array(z.number().int().min(0).max(maxSize)).max(maxRank);

export const operationSchema = z.discriminatedUnion("op", [
  z.strictObject({ op: z.enum(unaryNames), ...one }),
  z.strictObject({ op: z.enum(binaryNames), ...two }),
  z.strictObject({ op: z.enum(reductionNames), ...one, axes: axes.optional() }),
  z.strictObject({ op: z.literal("pow"), ...one, exponent: real }),
  z.strictObject({ op: z.literal("clip"), ...one, low: real, high: real }),
  z.strictObject({ op: z.literal("where"), from: z.tuple([source, source, source]) }),
  z.strictObject({ op: z.literal("matMul"), ...two }),
  z.strictObject({ op: z.literal("reshape"), ...one, shape }),
  z.strictObject({ op: z.literal("transpose"), ...one, axes }),
  z.strictObject({ op: z.literal("flip"), ...one, axes }),
  z.strictObject({ op: z.literal("slice"), ...one, begin: borders, size: shape }),
  z.strictObject({ op: z.literal("pad"), ...one, before: borders, after: borders, value: real }),
  z.strictObject({ op: z.literal("concatenate"), from: z.array(source).min(1).max(64), axis }),
  z.strictObject({
    op: z.literal("constant"),
    from: z.tuple([]),
    shape,
    values: z.array(real).max(maxValues),
  }),
  // What follows draws numbers or has no gradient, so that only the change of a sample can have it.
  z.strictObject({ op: z.enum(["uniform", "normal"]), from: z.tuple([]), shape }),
  z.strictObject({
    op: z.literal("integer"),
    from: z.tuple([]),
    below: z.number().int().min(1).max(maxSize),
  }),
  /** Moves along the first axes by so many places, a whole number for each; what enters is `fill`. */
  z.strictObject({
    op: z.literal("shift"),
    from: z
      .array(source)
      .min(2)
      .max(maxRank + 1),
    fill: real,
  }),
  /** Turns the first two axes by so many quarters. */
  z.strictObject({ op: z.literal("rotate90"), ...two }),
]);
export type Operation = z.infer<typeof operationSchema>;

/** The operations that only the change of a sample can have. */
const ofSamples: ReadonlySet<Operation["op"]> = new Set([
  "uniform",
  "normal",
  "integer",
  "shift",
  "rotate90",
]);
export const isOfSamples = ({ op }: Operation): boolean => ofSamples.has(op);

export const expressionSchema = z.strictObject({
  operations: z.array(operationSchema).max(maxOperations),
  /** Index of the tensor that is the result. */
  output: source,
});
export type ExpressionAnswer = z.infer<typeof expressionSchema>;
