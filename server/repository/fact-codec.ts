/**
 * Facts as journal bytes: JSON with fixed members in a fixed order, hashes checked on the way in and
 * out. A fact of a type this release does not know is kept as it is (state.ts says what follows).
 */
import { z } from "zod";
import { StemmaError } from "../../shared/errors.js";
import type { Fact } from "../../shared/journal/fact.js";
import type { FactCodec } from "../../shared/journal/journal.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";

const hash = z.custom<Hash>(isHash, "no hash");
const text = z.string().max(4096);
const time = z.number().min(-8.64e15).max(8.64e15);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const at = { atMs: time };
/** What a dataset's reader is told; few and short. */
const readerParameters = z.record(text, z.union([text, z.number(), z.boolean(), z.array(text).max(4096)])).refine((all) => Object.keys(all).length <= 64, "more than 64 parameters");
const about = { ...at, versionId: hash, because: text };

/** One schema a type; members in the order in which they are written. */
const schemas = {
  recorded: z.object({ ...at, versionId: hash, name: text, version: count.min(1), pack: text.nullable(), tensorBytes: count.optional(), ownBytes: count.optional() }),
  stored: z.object({ ...at, versionId: hash }),
  released: z.object(about), retired: z.object(about), held: z.object(about), unheld: z.object(about),
  activated: z.object({ ...at, versionId: hash, device: text, line: text, deviceAtMs: time, deviceClockErrorMs: z.number().min(0).max(8.64e15).nullable(), session: count }),
  tagged: z.object({ ...at, name: text, tag: text, versionId: hash.nullable() }),
  enrolled: z.object({ ...at, device: text, publicKey: text, tokenHash: text, profile: text, lines: z.array(text).max(256) }),
  revoked: z.object({ ...at, device: text, because: text }), quarantined: z.object({ ...at, device: text, because: text }),
  session: z.object({ ...at, device: text, session: count }),
  assigned: z.object({ ...at, device: text, line: text, versionId: hash }),
  data: z.object({ ...at, name: text, kind: text, location: text, parameters: readerParameters.optional(), hash: hash.nullable(), removed: z.boolean().optional() }),
  backup: z.object({ ...at, position: count, location: text }),
  restored: z.object({ ...at, position: count, lostFrom: count.nullable() }),
} satisfies Record<Fact["type"], z.ZodType>;

const utf8 = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

function invalid(why: string, cause?: unknown): StemmaError {
  return new StemmaError("FACT_INVALID", `A fact cannot be kept or read: ${why}. Report this with what led to it.`, { cause });
}

/** @throws FACT_INVALID */
export function checkFact(fact: Fact): Fact {
  const schema = Object.hasOwn(schemas, fact.type) ? schemas[fact.type] : undefined;
  if (schema === undefined) throw invalid(`there is no type ${JSON.stringify(fact.type)}`);
  const checked = schema.safeParse(fact);
  if (!checked.success) throw invalid(`${fact.type}.${checked.error.issues[0]?.path.join(".") ?? ""} ${checked.error.issues[0]?.message ?? ""}`);
  return { type: fact.type, ...checked.data } as Fact;
}

export const factCodec: FactCodec<Fact> = {
  encode: (fact) => utf8.encode(JSON.stringify(checkFact(fact))),
  decode(bytes) {
    let value: unknown;
    try { value = JSON.parse(decoder.decode(bytes)); } catch (cause) { throw invalid("its bytes are no JSON", cause); }
    if (typeof value !== "object" || value === null || typeof (value as { type?: unknown }).type !== "string") throw invalid("it has no type");
    const fact = value as Fact;
    return Object.hasOwn(schemas, fact.type) ? checkFact(fact) : fact;
  },
};
