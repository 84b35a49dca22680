/** Makes provenance of plain and committed members: draws the salts, and encodes both objects. */
import { StemmaError } from "../errors.js";
import type { CanonicalValue } from "../model/canonical-json.js";
import type { Random } from "../ports.js";
import { commitTo, saltBytes } from "./commitments.js";
import { encodeProvenance } from "./encode-provenance.js";
import { encodeOpenings, type Openings } from "./openings.js";
import { committedMembers, type CommittedMembers, type Provenance } from "./provenance.js";

/** The bytes of the objects of kinds "provenance" and "openings". */
export interface ProvenanceObjects {
  readonly provenance: Uint8Array;
  readonly openings: Uint8Array;
}

/** @throws PROVENANCE_INVALID, CANONICAL_JSON_INVALID */
export function makeProvenance(
  plain: Omit<Provenance, "committed">,
  values: CommittedMembers,
  random: Pick<Random, "bytes">,
): ProvenanceObjects {
  const openings: Openings = Object.fromEntries(
    committedMembers.flatMap((name) =>
      values[name] === undefined
        ? []
        : [[name, { salt: random.bytes(saltBytes), value: canonicalOf(values[name]) }] as const],
    ),
  );
  const committed = Object.fromEntries(
    Object.entries(openings).map(([name, opening]) => [name, commitTo(opening)]),
  );
  return { provenance: encodeProvenance({ ...plain, committed }), openings: encodeOpenings(openings) };
}

/** A value as canonical JSON has it: without undefined members, which are left out. */
export function canonicalOf(value: unknown): CanonicalValue {
  if (
    value === null ||
    typeof value === "boolean" ||
    typeof value === "number" ||
    typeof value === "string" ||
    typeof value === "bigint"
  )
    return value;
  if (Array.isArray(value)) return value.map(canonicalOf);
  if (typeof value === "object")
    return Object.fromEntries(
      Object.entries(value).flatMap(([name, member]) =>
        member === undefined ? [] : [[name, canonicalOf(member)]],
      ),
    );
  throw new StemmaError("INTERNAL", `Provenance cannot hold a ${typeof value}. Report this.`);
}
