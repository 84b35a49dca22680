/** Encodes provenance and reads it from bytes that may be hostile. (docs/formats.md, "Provenance") */
import { StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { ExactnessClass, Provenance, RecipeReference } from "./provenance.js";

const limits = { maxBytes: 64 * 1024, maxDepth: 4 };
const maxBases = 64;
const maxData = 256;
const maxCommitted = 32;
const maxText = 256;
const memberName = /^[a-z][A-Za-z]{0,31}$/;
const exactnessClasses: readonly ExactnessClass[] = ["wasm", "native", "none"];
export const provenanceFields = [
  "format",
  "engine",
  "recipe",
  "exactness",
  "bases",
  "data",
  "environment",
  "committed",
];

/** @throws PROVENANCE_INVALID always */
export function invalidProvenance(reason: string): never {
  throw new StemmaError(
    "PROVENANCE_INVALID",
    `This is not provenance of format 1: ${reason}. Have the version saved again by the Stemma that trained it.`,
  );
}

/** @throws PROVENANCE_INVALID, CANONICAL_JSON_INVALID */
export function encodeProvenance(provenance: Provenance): Uint8Array {
  const { engine, recipe, exactness, bases, data, environment, committed } = provenance;
  const bytes = encodeCanonical(
    {
      format: 1,
      engine: engine === undefined ? undefined : shortOf(engine),
      recipe: recipe && ("bundle" in recipe ? { bundle: shortOf(recipe.bundle) } : { ...recipe }),
      exactness,
      bases: bases.map(shortOf),
      data: data.map(shortOf),
      environment: shortOf(environment),
      committed: Object.fromEntries(Object.entries(committed).map(([name, hash]) => [name, shortOf(hash)])),
    },
    limits,
  );
  decodeProvenance(bytes);
  return bytes;
}

/** True if bytes claim to be provenance of format 1; older versions have JSON of other forms. */
export function isProvenance1(bytes: Uint8Array): boolean {
  if (bytes.length > limits.maxBytes) return false;
  try {
    const value = JSON.parse(Buffer.from(bytes).toString("utf8")) as { format?: unknown } | null;
    return value?.format === 1 && "committed" in value;
  } catch {
    return false;
  }
}

/** @throws PROVENANCE_INVALID, CANONICAL_JSON_INVALID */
export function decodeProvenance(bytes: Uint8Array): Provenance {
  const value = objectOf(decodeCanonical(bytes, limits), "it", provenanceFields);
  if (value["format"] !== 1) return invalidProvenance("its format is not 1");
  const { engine, recipe, exactness, committed } = value;
  if (!exactnessClasses.includes(exactness as ExactnessClass))
    return invalidProvenance("its exactness class is unknown");
  if (exactness !== "none" && (engine === undefined || recipe === undefined))
    return invalidProvenance("it names an exactness class, but no engine and recipe");
  return {
    engine: engine === undefined ? undefined : hashOf(engine, "engine"),
    recipe: recipe === undefined ? undefined : recipeOf(recipe),
    exactness: exactness as ExactnessClass,
    bases: hashesOf(value["bases"], "bases", maxBases),
    data: hashesOf(value["data"], "data", maxData),
    environment: hashOf(value["environment"], "environment"),
    committed: committedOf(committed),
  };
}

function committedOf(value: CanonicalValue | undefined): Provenance["committed"] {
  const entries = Object.entries(objectOf(value, "committed"));
  if (entries.length > maxCommitted) return invalidProvenance(`it has more than ${maxCommitted} commitments`);
  return Object.fromEntries(
    entries.map(([name, hash]) => {
      if (!memberName.test(name)) invalidProvenance("a committed member has a malformed name");
      return [name, hashOf(hash, name)];
    }),
  );
}

function recipeOf(value: CanonicalValue): RecipeReference {
  const recipe = objectOf(value, "recipe", ["name", "version", "bundle"]);
  const { name, version, bundle } = recipe;
  if (bundle !== undefined) {
    if (Object.keys(recipe).length > 1) return invalidProvenance("its recipe has a bundle and a name");
    return { bundle: hashOf(bundle, "recipe") };
  }
  if (!isText(name) || !isText(version)) return invalidProvenance("its recipe has no name or version");
  return { name, version };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= maxText;
}

/** @throws PROVENANCE_INVALID for what is not an object, or has a member that is not allowed */
export function objectOf(
  value: CanonicalValue | undefined,
  what: string,
  allowed?: readonly string[],
): Readonly<Record<string, CanonicalValue | undefined>> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return invalidProvenance(`${what} is not an object`);
  if (allowed !== undefined)
    for (const name of Object.keys(value))
      if (!allowed.includes(name))
        invalidProvenance(`${what} has the unknown member ${JSON.stringify(name.slice(0, 80))}`);
  return value as Readonly<Record<string, CanonicalValue | undefined>>;
}

function hashesOf(value: CanonicalValue | undefined, what: string, max: number): readonly Hash[] {
  if (!Array.isArray(value) || value.length > max)
    return invalidProvenance(`${what} is not a list of at most ${max}`);
  return (value as readonly CanonicalValue[]).map((item) => hashOf(item, what));
}

/** 32 bytes as 43 characters of base64url. */
export function shortOf(hash: Hash): string {
  return Buffer.from(hashBytes(hash)).toString("base64url");
}

function hashOf(value: CanonicalValue | undefined, what: string): Hash {
  return hexOf(bytes32Of(value, what));
}

/** @throws PROVENANCE_INVALID */
export function bytes32Of(value: CanonicalValue | undefined, what: string): Uint8Array {
  if (typeof value === "string" && value.length === 43) {
    const bytes = Buffer.from(value, "base64url");
    if (bytes.length === 32 && bytes.toString("base64url") === value) return new Uint8Array(bytes);
  }
  return invalidProvenance(`${what} is not 32 bytes as base64url`);
}
