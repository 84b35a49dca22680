/** Checks what the device's own software submits as a sample. Pure. */
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import { messageOf } from "../../error-text.js";
import {
  checkSample,
  maxSampleBytes,
  sampleSplits,
  type Sample,
  type SampleSplit,
  type SampleTarget,
} from "./sample-format.js";
import { outOfReach } from "./float-reach.js";
import { contentKey, splitByContent, type SplitShares } from "./sample-split.js";
import { targetName } from "./target-form.js";

const maxValues = maxSampleBytes / 4;

const shapeInput = z.array(z.number().int().min(1).max(maxValues)).max(8);
/** Numbers, or float32 little-endian in base64. */
const valuesInput = z.union([
  z.array(z.number()).min(1).max(maxValues),
  z.base64().max(Math.ceil(maxSampleBytes / 3) * 4),
]);

const sampleInputSchema = z.strictObject({
  /** The sender's own name of the sample: a second sample with the same id is skipped. */
  id: z
    .string()
    .regex(/^[\x21-\x7e]{1,64}$/, "must be 1 to 64 visible ASCII characters")
    .optional(),
  /** A class index, or the numbers to predict. */
  label: z.union([z.number(), z.array(z.number()).min(1).max(1024)]).optional(),
  /** The targets by name: a number, a vector, or values with their shape. */
  targets: z
    .record(
      z.string().regex(targetName, "a name must be 1 to 64 of A-Z a-z 0-9 _ -"),
      z.union([
        z.number(),
        z.array(z.number()).min(1).max(maxValues),
        z.strictObject({ shape: shapeInput, values: valuesInput }),
      ]),
    )
    .optional(),
  /** Time of observation, ms since 1970; the time of arrival when absent. */
  timeMs: z.number().int().min(0).max(8.64e15).optional(),
  /** Decided by its content and the profile's shares when absent. */
  split: z.enum(sampleSplits).optional(),
  /** A vector when absent. */
  shape: shapeInput.optional(),
  values: valuesInput,
});

/** The refusal of a sample: what is wrong with it and what to do. */
export function sampleRefused(
  where: string,
  reason: string,
  advice = 'Send {"label": number or numbers, "shape": [10, 3], "values": numbers or base64 of float32}',
): StemmaError<"SAMPLE_INVALID"> {
  return new StemmaError("SAMPLE_INVALID", `The sample ${where} was not accepted: ${reason}. ${advice}.`, {
    where,
  });
}

/**
 * Checks one sample as submitted and completes it. Its part is that of an equal input that is stored already,
 * else the one it names, else the one that its content gives.
 * @throws SAMPLE_INVALID naming the field
 */
export function sampleOfInput(
  value: unknown,
  where: string,
  defaults: {
    readonly id: string;
    readonly nowMs: number;
    readonly shares: SplitShares;
    /** The part of the stored samples with this content. */
    readonly splitOf: (contentKey: string) => SampleSplit | undefined;
  },
): Sample {
  const result = sampleInputSchema.safeParse(value);
  if (!result.success) throw sampleRefused(where, z.prettifyError(result.error));
  const input = result.data;
  const values = floatsOf(input.values, where, "values");
  const label = typeof input.label === "number" ? [input.label] : input.label;
  requireReach(label ?? [], where, "label");
  const shape = input.shape ?? [values.length];
  const key = contentKey({ shape, values });
  const sample: Sample = {
    id: input.id ?? defaults.id,
    timeMs: input.timeMs ?? defaults.nowMs,
    split: defaults.splitOf(key) ?? input.split ?? splitByContent(key, defaults.shares),
    ...(label === undefined ? {} : { label }),
    ...(input.targets === undefined ? {} : { targets: targetsOf(input.targets, where) }),
    shape,
    values,
  };
  try {
    checkSample(sample);
  } catch (error) {
    throw sampleRefused(where, messageOf(error).replace(/^A sample was rejected: |\. Send it again.*$/g, ""));
  }
  return sample;
}

type TargetInput =
  number | number[] | { readonly shape: readonly number[]; readonly values: string | number[] };

function targetsOf(
  input: Readonly<Record<string, TargetInput>>,
  where: string,
): NonNullable<Sample["targets"]> {
  return Object.fromEntries(
    Object.entries(input).map(([name, target]): [string, SampleTarget] => {
      const field = `targets.${name}`;
      if (typeof target === "number") return [name, { shape: [], values: floatsOf([target], where, field) }];
      if (Array.isArray(target))
        return [name, { shape: [target.length], values: floatsOf(target, where, field) }];
      return [name, { shape: target.shape, values: floatsOf(target.values, where, `${field}.values`) }];
    }),
  );
}

/** Numbers as submitted. @throws SAMPLE_INVALID naming the field */
function floatsOf(input: string | readonly number[], where: string, field: string): Float32Array {
  if (typeof input !== "string") {
    requireReach(input, where, field);
    return Float32Array.from(input);
  }
  const raw = Buffer.from(input, "base64");
  if (raw.length === 0 || raw.length % 4 !== 0)
    throw sampleRefused(
      where,
      `${field}: the bytes of its base64 are not a multiple of 4, so they are not float32 numbers`,
    );
  const values = new Float32Array(raw.length / 4);
  for (let i = 0; i < values.length; i++) values[i] = raw.readFloatLE(i * 4);
  return values;
}

/** @throws SAMPLE_INVALID naming field and number */
function requireReach(numbers: readonly number[], where: string, field: string): void {
  for (const [index, number] of numbers.entries()) {
    const problem = outOfReach(number);
    if (problem !== undefined)
      throw sampleRefused(
        where,
        `${field}: number ${index + 1}, ${number}, ${problem}`,
        "Scale it, or leave it out",
      );
  }
}
