/**
 * The summary of a probe (MM11; MMlib §2.4): what each layer of one model gave, forward and backward, on fixed inputs,
 * and by which operations. Canonical JSON (docs/formats.md, "Probe"), so that it can be compared on another machine.
 */
import * as z from "zod";
import { StemmaError } from "../errors.js";
import { maxLayers } from "../model/architecture.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { isHash, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/** The form that this release writes and reads. */
export const probeFormat = 1;
export const maxSummaryBytes = 64 * 1024 * 1024;
/** More values than a summary of this size can have are refused before any is made. */
const maxValues = 4_000_000;
/** Operations that are kept of one layer in one pass; a recurrent layer may run thousands. */
export const maxOperations = 256;
/** Outputs of one layer, and its weights: a module of PyTorch may have those of all that are in it. */
const maxOutputs = 1000;
const maxWeights = 20_000;

const hash = z.custom<Hash>((value) => typeof value === "string" && isHash(value), "is not a SHA-256");
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const index = count.max(maxLayers);
/** Words of programs and machines, bounded; what is not printable is escaped where it is shown. */
const word = z.string().regex(/^[\w.:+-]{1,80}$/);
const text = z.string().max(200);
/** A float64, which may be NaN or infinite: canonical JSON has a form for these. */
const float = z.custom<number>((value) => typeof value === "number", "is not a number");

const figures = z.strictObject({
  /** Values of F16 and BF16 are kept as the float32 numbers that they are. */
  dtype: z.enum(["F32", "I32", "BOOL", "F64", "F16", "BF16", "I64"]),
  shape: z.array(count).max(32).readonly(),
  digest: hash,
  min: float.nullable(),
  max: float.nullable(),
  norm: float,
  nan: count,
  infinite: count,
  sample: z.array(float).max(8).readonly(),
});

/** An operation of TensorFlow.js or PyTorch that a layer ran. */
const operation = z.strictObject({
  name: word,
  /** The backend, and whose kernel it is: "wasm stemma", "cpu tfjs", "cuda torch". */
  kernel: z.string().regex(/^[a-z]{1,20} (stemma|tfjs|torch)$/),
  /** First 16 digits of the SHA-256 of its outputs: enough to find a place, not to prove that they are equal. */
  digest: z.string().regex(/^[0-9a-f]{16}$/),
});

const pass = z.strictObject({
  /** Null: no gradient reaches this output. */
  outputs: z.array(figures.nullable()).max(maxOutputs).readonly(),
  operations: z.array(operation).max(maxOperations).readonly(),
  /** Operations that ran after the last one that is listed. */
  unlisted: count,
  /**
   * Present where the layer only passes its input on: the layers before it did its work too (one kernel for a
   * convolution and what follows it).
   */
  isPassedOn: z.literal(true).exactOptional(),
});

const layer = z.strictObject({
  /** The path of a module of PyTorch; layers of an architecture have none. */
  name: word.exactOptional(),
  className: word,
  /** The outputs of other layers that it reads. */
  inputs: z
    .array(z.strictObject({ layer: index, output: count.max(maxOutputs - 1) }))
    .max(1000)
    .readonly(),
  sharedWith: index.exactOptional(),
  evaluation: pass.nullable(),
  training: pass.nullable(),
  /** Gradients with respect to its outputs, and to its weights. */
  backward: pass
    .extend({
      weights: z
        .array(z.strictObject({ name: z.string().regex(/^[\w/.:-]{1,80}$/), gradient: figures.nullable() }))
        .max(maxWeights)
        .readonly(),
    })
    .nullable(),
});

export const phases = ["evaluation", "training", "backward"] as const;
const phase = z.enum(phases);

const summary = z.strictObject({
  format: z.literal(probeFormat),
  kind: z.literal("stemma-probe"),
  model: z.strictObject({
    architecture: hash,
    /** Root of the tensors that ran. */
    root: hash,
    /** The origin of these tensors: a model's own, or drawn from the seed. */
    weights: z.enum(["own", "drawn"]),
    parameters: count,
  }),
  inputs: z.strictObject({
    seed: z.string().regex(/^(0|[1-9][0-9]{0,19})$/),
    batch: count,
    tensors: z.array(figures).max(1000).readonly(),
  }),
  /** Facts of the machine and its software. */
  environment: z.record(z.string().regex(/^[\w.@/-]{1,80}$/), text),
  layers: z.array(layer).min(1).max(maxLayers).readonly(),
  /** The value whose gradients were taken; null where the pass was not reached. */
  loss: figures.nullable(),
  /** The place where the engine refused to go on, and why: this model cannot be trained by it. */
  refused: z
    .strictObject({ phase, layer: index.nullable(), code: word, because: z.string().max(500) })
    .nullable(),
  /** Repetitions on the same machine, each in a process of its own. */
  runs: z.strictObject({
    count: count.min(1).max(100),
    /** Places in which a run differed from the first one. */
    differing: count,
  }),
});

export type ProbeSummary = z.infer<typeof summary>;
export type ProbedLayer = z.infer<typeof layer>;
export type ProbedPass = z.infer<typeof pass>;
export type ProbedOperation = z.infer<typeof operation>;
export type ProbePhase = (typeof phases)[number];
/** The findings of one process: the summary without the repetitions. */
export type ProbeRun = Omit<ProbeSummary, "runs">;

function invalid(where: string, reason: string): StemmaError<"CANONICAL_JSON_INVALID"> {
  return new StemmaError(
    "CANONICAL_JSON_INVALID",
    `${where} is not the summary of a probe: ${reason}. Make one with \`stemma probe MODEL --file FILE\`.`,
    { where },
  );
}

const limits = { maxBytes: maxSummaryBytes, maxDepth: 10 };

/** The sum over everything else in a summary. It finds a damaged file; whoever can write the file can write its sum. */
const sumOf = (probe: unknown): Hash =>
  sha256("stemma-probe-1\0", encodeCanonical(probe as CanonicalValue, limits));

/** @throws CANONICAL_JSON_INVALID where it is larger than a summary may be */
export function encodeProbe(probe: ProbeSummary): Uint8Array {
  return encodeCanonical({ ...probe, sum: sumOf(probe) }, limits);
}

/**
 * Reads a summary from outside. Size and number of values are checked before anything is made of them.
 * @param where names it in messages
 * @throws CANONICAL_JSON_INVALID
 */
export function decodeProbe(bytes: Uint8Array, where: string): ProbeSummary {
  if (bytes.length > maxSummaryBytes)
    throw invalid(where, `it has ${bytes.length} bytes, more than ${maxSummaryBytes}`);
  if (valuesAtMost(bytes) > maxValues) throw invalid(where, `it has more than ${maxValues} values`);
  let value: CanonicalValue;
  try {
    value = decodeCanonical(bytes, limits);
  } catch (cause) {
    throw invalid(where, cause instanceof StemmaError ? firstSentence(cause.message) : "it cannot be read");
  }
  const { kind, format } = (value ?? {}) as { readonly kind?: unknown; readonly format?: unknown };
  if (kind === "stemma-probe" && Number.isSafeInteger(format) && format !== probeFormat)
    throw invalid(
      where,
      `it has the form ${String(format)}, and this release reads the form ${probeFormat}. Read it with the release ` +
        "that wrote it, or probe again with this one on both machines",
    );
  const { sum, ...members } = (value ?? {}) as { readonly sum?: unknown };
  const checked = summary.safeParse(members);
  if (checked.success) {
    if (sum === sumOf(members)) return checked.data;
    throw invalid(where, "it is damaged: its sum is that of other content. Copy it again");
  }
  const [issue] = checked.error.issues;
  throw invalid(where, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "invalid"}`.slice(0, 200));
}

/** An upper bound of the number of values in a JSON text: one for each comma and each container. */
function valuesAtMost(bytes: Uint8Array): number {
  let found = 1;
  for (const byte of bytes) if (byte === 0x2c || byte === 0x5b || byte === 0x7b) found++;
  return found;
}

const firstSentence = (message: string): string => (message.split(". ")[0] ?? "").slice(0, 200);
