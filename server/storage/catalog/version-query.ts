/**
 * Queries for versions. A query has a fixed set of fields and comparisons and is checked here once, so that
 * no input can become an operator or a field name of the catalog's database.
 */
import * as z from "zod";
import { StemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** The states of a version, in the order in which it passes through them; only `retired` is final. */
export const versionStates = ["recorded", "stored", "released", "retired"] as const;
export type VersionStateName = (typeof versionStates)[number];

/** Versions on one page when the query has no limit. */
export const defaultLimit = 100;
/** A page of all versions that begins within so many of them is found by passing these. */
export const maxSkipped = 10_000;
/** Versions on one page, at most. */
export const maxLimit = 10_000;
const maxMetadataConditions = 16;

// Types as Hash without a transform: JSON Schema cannot express transforms.
const hash = z.string().regex(/^[0-9a-f]{64}$/) as z.ZodType as z.ZodType<Hash>;
const text = z.string().max(256);
const timeMs = z.number().min(-8.64e15).max(8.64e15);

const comparisons = ["=", "<", "<=", ">", ">="] as const;

/**
 * Compares one metadata field with a value. Only values of the same type compare: a number never matches a
 * text; texts compare by UTF-16 code units.
 */
export const metadataConditionSchema = z.strictObject({
  key: text,
  is: z.enum(comparisons),
  value: z.union([text, z.number(), z.boolean()]),
  /** The value as it was typed, where it is no text: what is stored as text is compared with this. */
  text: text.exactOptional(),
});
export type MetadataCondition = Readonly<z.infer<typeof metadataConditionSchema>>;

/** A version is found when it meets the conditions of all fields that the query has. */
export const versionQuerySchema = z
  .strictObject({
    name: text,
    namePrefix: text,
    device: text,
    line: text,
    approach: z.enum(["snapshot", "update", "provenance"]),
    kind: z.enum(["architecture", "opaque"]),
    state: z.enum(versionStates),
    contentId: hash,
    architecture: hash,
    /** Versions derived directly from this one. */
    base: hash,
    tag: text,
    recordedFromMs: timeMs,
    /** The end of the time of recording, exclusive. */
    recordedUntilMs: timeMs,
    metadata: z.array(metadataConditionSchema).max(maxMetadataConditions),
    /** Retired versions are found only where this is true, or with `state: "retired"`. */
    includeRetired: z.boolean(),
    /** The order by position in the journal; "newest" first when absent. */
    order: z.enum(["newest", "oldest"]),
    offset: z.number().int().min(0).max(1e9),
    limit: z.number().int().min(1).max(maxLimit),
  })
  .partial();
export type VersionQuery = Readonly<z.infer<typeof versionQuerySchema>>;

/** @throws HTTP_REQUEST_INVALID naming the field */
export function checkQuery(query: unknown): VersionQuery {
  const checked = versionQuerySchema.safeParse(query);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const where = issue?.path.join(".") || "query";
  throw new StemmaError(
    "HTTP_REQUEST_INVALID",
    `The search is invalid at ${where}: ${issue?.message ?? "unknown field"}. Correct it and try again.`,
    { where },
  );
}

/**
 * Parses a condition such as `key=value` or `key>=0.5`, with =, <, <=, > or >=. What is stored as a number or true or
 * false is compared as such, where the value can be read so, and what is stored as text with the text that was typed.
 * A value in double quotes is text alone.
 * @throws USAGE
 */
export function parseMetadataCondition(written: string): MetadataCondition {
  const parts = /^\s*([^=<>\s][^=<>]*)(<=|>=|=|<|>)(.*)$/su.exec(written);
  const typed = parts?.[3]?.trim() ?? "";
  const value = valueOf(typed);
  const condition = metadataConditionSchema.safeParse({
    key: parts?.[1]?.trim(),
    is: parts?.[2],
    value,
    ...(typeof value === "string" ? {} : { text: typed }),
  });
  if (condition.success) return condition.data;
  throw new StemmaError(
    "USAGE",
    `${JSON.stringify(written.slice(0, 80))} is not a condition on metadata. Write key=value, or compare with ` +
      "<, <=, > or >=, for example temperature>=20; key and value have at most 256 characters.",
    { condition: written.slice(0, 300) },
  );
}

const numberPattern = /^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

function valueOf(written: string): string | number | boolean {
  if (written === "true" || written === "false") return written === "true";
  if (numberPattern.test(written)) return Number(written);
  return /^".*"$/s.test(written) ? written.slice(1, -1) : written;
}
