/**
 * Openings: salts and values of a provenance's commitments, as an object outside its hash. Redacting a member drops
 * its opening; the provenance stays as it is. (docs/formats.md, "Provenance")
 */
import { StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import { commitTo, saltBytes, type Opening } from "./commitments.js";
import { bytes32Of, decodeProvenance, invalidProvenance, objectOf } from "./encode-provenance.js";
import type { Provenance } from "./provenance.js";

const limits = { maxBytes: 1024 * 1024, maxDepth: 24 };
const maxOpenings = 32;

/** Member → salt and value. */
export type Openings = Readonly<Record<string, Opening>>;

/** @throws PROVENANCE_INVALID, CANONICAL_JSON_INVALID */
export function encodeOpenings(openings: Openings): Uint8Array {
  const entries = Object.entries(openings);
  if (entries.some(([, { salt }]) => salt.length !== saltBytes))
    invalidProvenance(`a salt does not have ${saltBytes} bytes`);
  return encodeCanonical(
    {
      format: 1,
      openings: Object.fromEntries(
        entries.map(([name, { salt, value }]) => [
          name,
          { salt: Buffer.from(salt).toString("base64url"), value },
        ]),
      ),
    },
    limits,
  );
}

/** Reads openings, which prove nothing before they are verified. @throws PROVENANCE_INVALID, CANONICAL_JSON_INVALID */
export function decodeOpenings(bytes: Uint8Array): Openings {
  const value = objectOf(decodeCanonical(bytes, limits), "openings", ["format", "openings"]);
  if (value["format"] !== 1) return invalidProvenance("the format of its openings is not 1");
  const entries = Object.entries(objectOf(value["openings"], "openings"));
  if (entries.length > maxOpenings) return invalidProvenance(`it has more than ${maxOpenings} openings`);
  return Object.fromEntries(
    entries.map(([name, item]) => {
      const opening = objectOf(item, `the opening of ${name.slice(0, 80)}`, ["salt", "value"]);
      if (!("value" in opening)) return invalidProvenance(`the opening of ${name.slice(0, 80)} has no value`);
      return [
        name,
        { salt: bytes32Of(opening["salt"], "a salt"), value: opening["value"] as CanonicalValue },
      ];
    }),
  );
}

/** @throws OPENINGS_MISMATCH where an opening is of no commitment, or not of the one with its name */
export function verifyOpenings({ committed }: Provenance, openings: Openings): void {
  for (const [name, opening] of Object.entries(openings))
    if (!Object.hasOwn(committed, name) || committed[name] !== commitTo(opening))
      throw new StemmaError(
        "OPENINGS_MISMATCH",
        `The opening of ${JSON.stringify(name.slice(0, 80))} is not what the provenance commits to. Do ` +
          "not trust it: have the version sent again by the device that trained it.",
        { member: name.slice(0, 80) },
      );
}

/** A provenance with the openings that are there, verified. */
export interface OpenedProvenance {
  readonly provenance: Provenance;
  readonly openings: Openings;
}

/** The value of a committed member; undefined where it was redacted. */
export function valueOf({ openings }: OpenedProvenance, name: string): CanonicalValue | undefined {
  return Object.hasOwn(openings, name) ? openings[name]?.value : undefined;
}

/**
 * @param openings undefined where all of them were redacted
 * @throws PROVENANCE_INVALID, OPENINGS_MISMATCH, CANONICAL_JSON_INVALID
 */
export function openProvenance(bytes: Uint8Array, openings: Uint8Array | undefined): OpenedProvenance {
  const provenance = decodeProvenance(bytes);
  const opened = openings === undefined ? {} : decodeOpenings(openings);
  verifyOpenings(provenance, opened);
  return { provenance, openings: opened };
}
