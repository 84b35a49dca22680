/**
 * A version's typed metadata: names with texts, numbers or booleans as values, which queries can use. Stored
 * once by content.
 */
import { StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical } from "./canonical-json.js";

export type ModelMetadata = Readonly<Record<string, string | number | boolean>>;

/**
 * The metadata's key for a model's quality, as whoever made it measures it, higher being better: of ancestors
 * with equally many layers in common, the best is preferred.
 */
export const qualityKey = "quality";

/** False where no other model may take over layers of this one: its weights are not trained, or are known to be bad. */
export const inheritableKey = "inheritable";

const limits = { maxBytes: 1024 * 1024, maxDepth: 2 };

/** @throws CANONICAL_JSON_INVALID */
export function encodeMetadata(metadata: ModelMetadata): Uint8Array {
  return encodeCanonical({ format: 1, fields: checkFields(metadata) }, limits);
}

/** @throws CANONICAL_JSON_INVALID */
export function decodeMetadata(bytes: Uint8Array): ModelMetadata {
  const value = decodeCanonical(bytes, limits) as {
    readonly format?: unknown;
    readonly fields?: unknown;
  } | null;
  if (value?.format !== 1) return invalid("its format is not 1");
  return checkFields(value.fields);
}

function invalid(reason: string): never {
  throw new StemmaError(
    "CANONICAL_JSON_INVALID",
    `These are not metadata: ${reason}. Give each name a text, a number, or true or false.`,
  );
}

function checkFields(fields: unknown): ModelMetadata {
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    return invalid("it is not an object");
  for (const [name, value] of Object.entries(fields))
    if (!["string", "number", "boolean"].includes(typeof value))
      invalid(`${JSON.stringify(name.slice(0, 80))} has a value of another kind`);
  return fields as ModelMetadata;
}
