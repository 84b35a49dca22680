/**
 * Encodes facts as journal bytes: JSON with fixed members in a fixed order, and hashes as base64url
 * (hexadecimal hashes can also be read). Facts are checked when they are written and when they are read. A
 * fact of a type that this release does not know is kept as it is (see apply-fact.ts), unless it is critical
 * (docs/formats.md, "Facts of later releases").
 */
import * as z from "zod";
import { StemmaError } from "../../../../shared/errors.js";
import type { Caller } from "../../../../shared/journal/caller.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import type { FactCodec } from "../../../../shared/journal/journal.js";
import { shortenHash } from "../../../../shared/journal/short-hash.js";
import { requestField } from "../../../../shared/request-id.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import { factSchemas } from "./fact-schemas.js";

/** The fact with who caused it, and with which request, where its type can have that. */
export function causedBy(fact: Fact, by: Caller, request?: string): Fact {
  return "by" in factSchemas[fact.type] ? ({ ...fact, by, ...requestField({ request }) } as Fact) : fact;
}

/**
 * Facts are written without unknown members. Facts that are read may have members that a newer release added.
 */
const writeSchemas = new Map<string, z.ZodType>(
  Object.entries(factSchemas).map(([type, shape]) => [
    type,
    z.strictObject({ type: z.literal(type), ...shape }),
  ]),
);
const readSchemas = new Map<string, z.ZodType>(
  Object.entries(factSchemas).map(([type, shape]) => [
    type,
    z.looseObject({ type: z.literal(type), ...shape }),
  ]),
);

const utf8 = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

function invalid(why: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "FACT_INVALID",
    `A fact cannot be written or read: ${why}. Report this with the steps that led to it.`,
    { cause },
  );
}

function check(schema: z.ZodType, fact: Fact): Fact {
  const checked = schema.safeParse(fact);
  if (checked.success) return checked.data as Fact;
  const [issue] = checked.error.issues;
  throw invalid(`${fact.type}.${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`);
}

/** Checks a fact before it is written. @throws FACT_INVALID */
export function checkFact(fact: Fact): Fact {
  const schema = writeSchemas.get(fact.type);
  if (schema === undefined) throw invalid(`there is no type ${JSON.stringify(fact.type)}`);
  return check(schema, fact);
}

/** Names of members whose values are hashes. */
const hashMembers = new Set([
  "versionId",
  "hash",
  "object",
  "predictions",
  "engine",
  "engineId",
  "recipe",
  "successor",
  "before",
  "base",
  "data",
]);

function shortenHashes(name: string, value: unknown): unknown {
  return hashMembers.has(name) && isHash(value) ? shortenHash(value) : value;
}

/** The critical facts of this release. */
function isKnownCritical(value: object): boolean {
  const { type, claim } = value as { readonly type?: unknown; readonly claim?: unknown };
  const known: readonly unknown[] = ["rollout", "dropped", "data-dropped", "published"];
  return known.includes(type) || (type === "recorded" && claim === true);
}

/** The types of facts that this release knows. */
export const factTypes: readonly string[] = Object.keys(factSchemas);

export const factCodec: FactCodec<Fact> = {
  encode: (fact) => utf8.encode(JSON.stringify(checkFact(fact), shortenHashes)),
  decode(bytes) {
    let value: unknown;
    try {
      value = JSON.parse(decoder.decode(bytes));
    } catch (cause) {
      throw invalid("its bytes are not JSON", cause);
    }
    if (typeof value !== "object" || value === null || typeof (value as { type?: unknown }).type !== "string")
      throw invalid("it has no type");
    if ((value as { critical?: unknown }).critical === true && !isKnownCritical(value))
      throw invalid(
        `${JSON.stringify((value as Fact).type)} is critical: a newer Stemma wrote it, and reading on ` +
          "without it would be wrong",
      );
    const fact = value as Fact;
    const schema = readSchemas.get(fact.type);
    return schema === undefined ? fact : check(schema, fact);
  },
};
