/**
 * An evaluation as it is kept (ME4): what was measured, of which model, on which data, by which engine, when and by
 * whom. (docs/formats.md, "Evaluations")
 */
import * as z from "zod";
import { StemmaError } from "../errors.js";
import { callerPaths, maxCallerText, type Caller } from "../journal/caller.js";
import { readShortHash, shortenHash } from "../journal/short-hash.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "../train/evaluation.js";
import type { Scalar } from "./provenance.js";

export interface StoredEvaluation {
  readonly versionId: Hash;
  /** Merkle root of the model that was evaluated. */
  readonly root: Hash;
  /** The engine that ran, and on which of its backends. */
  readonly engine: Hash;
  readonly backend: { readonly backend: string; readonly reason: string };
  readonly data: {
    /** Hash of the samples of all parts. */
    readonly content: Hash;
    /** Name under which they are registered in the fleet. */
    readonly name?: string | undefined;
    /** The reader and its parameters, which also split them. */
    readonly reader: string;
    readonly parameters: Readonly<Record<string, Scalar | readonly string[]>>;
    /** The place where they were read. */
    readonly from: "stored" | "registered" | "generator";
    readonly part: "heldOut";
    /** Samples of that part; the first so many of them were evaluated. */
    readonly heldOut: number;
    readonly evaluated: number;
  };
  /** Classification: the k of top-k. */
  readonly top?: number | undefined;
  /** The measures of the model's outputs, whose kind the targets of the data decide; it is in `measures.task`. */
  readonly measures: Evaluation;
  readonly metric: {
    readonly name: string;
    readonly unit: string;
    readonly lowerIsBetter: boolean;
    readonly value: number;
  };
  /**
   * Object of the kind "predictions", and how many numbers it has for a sample; the last `targets` of them are the
   * sample's true label (absent: none).
   */
  readonly predictions?:
    { readonly object: Hash; readonly width: number; readonly targets?: number | undefined } | undefined;
  readonly environment: Readonly<Record<string, string>>;
  readonly times: { readonly endedAtMs: number; readonly workMs: number };
  readonly by: Caller | null;
}

/** The confusion of 1,000 classes takes 2 MiB. */
const limits = { maxBytes: 16 * 1024 * 1024, maxDepth: 16 };

const hash = z.preprocess((value) => readShortHash(value) ?? value, z.custom<Hash>(isHash, "not a hash"));
const text = z.string().max(4096);
/** A number, also one that is not finite. */
const figure = z.custom<number>((value) => typeof value === "number", "not a number");
const count = z.number().int().min(0);
const callerText = z.string().min(1).max(maxCallerText);
const schema = z.strictObject({
  format: z.literal(1),
  versionId: hash,
  root: hash,
  engine: hash,
  backend: z.strictObject({ backend: text, reason: text }),
  data: z.strictObject({
    content: hash,
    name: text.optional(),
    reader: text,
    parameters: z.record(text, z.union([text, z.number(), z.boolean(), z.array(text)])),
    from: z.enum(["stored", "registered", "generator"]),
    part: z.literal("heldOut"),
    heldOut: count,
    evaluated: count,
  }),
  top: count.optional(),
  measures: z.looseObject({
    task: z.enum(["regression", "classification", "general"]),
    samples: count,
  }) as unknown as z.ZodType<Evaluation>,
  metric: z.strictObject({ name: text, unit: text, lowerIsBetter: z.boolean(), value: figure }),
  predictions: z.strictObject({ object: hash, width: count, targets: count.optional() }).optional(),
  environment: z.record(text, text),
  times: z.strictObject({ endedAtMs: count, workMs: count }),
  by: z
    .strictObject({
      who: callerText,
      through: z.enum(callerPaths),
      role: callerText.optional(),
      claims: callerText.optional(),
    })
    .nullable() as unknown as z.ZodType<Caller | null>,
});

/** @throws SIZE_OVER_LIMIT, CANONICAL_JSON_INVALID */
export function encodeEvaluation(evaluation: StoredEvaluation): Uint8Array {
  const { versionId, root, engine, data, predictions } = evaluation;
  return encodeCanonical(
    {
      ...evaluation,
      format: 1,
      versionId: shortenHash(versionId),
      root: shortenHash(root),
      engine: shortenHash(engine),
      data: { ...data, content: shortenHash(data.content) },
      predictions: predictions && { ...predictions, object: shortenHash(predictions.object) },
    } as unknown as CanonicalValue,
    limits,
  );
}

/** @throws EVALUATION_INVALID, CANONICAL_JSON_INVALID */
export function decodeEvaluation(bytes: Uint8Array): StoredEvaluation {
  const read = schema.safeParse(decodeCanonical(bytes, limits));
  if (read.success) {
    const { format: _, ...evaluation } = read.data;
    return evaluation;
  }
  const [issue] = read.error.issues;
  throw new StemmaError(
    "EVALUATION_INVALID",
    `This is not an evaluation of format 1: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}. Evaluate the ` +
      "version again with `stemma model eval`.",
  );
}
