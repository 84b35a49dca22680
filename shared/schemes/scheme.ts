/**
 * Float schemes (ModelHub §IV-B "Float Data Type Schemes", MH6): lossy forms of float32 tensors that a user
 * may choose where exactness is not needed. Their names, their bits, and the codes under which packs store
 * them. A reduced model is a version of its own, which holds the reduced numbers.
 */
import { StemmaError } from "../errors.js";

/**
 * The codes in pack entries, which never change their meaning (0 to 15 are those of shared/delta).
 */
export const schemeCodes = {
  float16: 16,
  bfloat16: 17,
  fixed: 18,
  normalized: 19,
  "quantize-uniform": 20,
  "quantize-random": 21,
} as const;
export type SchemeName = keyof typeof schemeCodes;
export type SchemeCode = (typeof schemeCodes)[SchemeName];

export interface Scheme {
  readonly name: SchemeName;
  /** Bits of a number; 16 for float16 and bfloat16. */
  readonly bits: number;
}

/**
 * Smallest and largest number of bits where it can be chosen: at least a sign and one bit, at most the 24
 * that float32 has; for quantisation, codes of one byte.
 */
const choices: Readonly<Record<SchemeName, readonly [min: number, max: number] | undefined>> = {
  float16: undefined,
  bfloat16: undefined,
  fixed: [2, 24],
  normalized: [2, 23],
  "quantize-uniform": [1, 8],
  "quantize-random": [1, 8],
};

/** The schemes as people write them, for help and messages. */
export const schemeForms = Object.entries(choices)
  .map(([name, bits]) => (bits === undefined ? name : `${name}:K (K ${bits[0]} to ${bits[1]})`))
  .join(", ");

export function isSchemeCode(code: number): code is SchemeCode {
  return (Object.values(schemeCodes) as readonly number[]).includes(code);
}

/** Reads "float16" or "quantize-uniform:8". @throws USAGE */
export function parseScheme(text: string): Scheme {
  const [name = "", bits, ...more] = text.split(":");
  const known = Object.keys(choices).find((each): each is SchemeName => each === name);
  const range = known === undefined ? undefined : choices[known];
  if (known !== undefined && more.length === 0) {
    if (range === undefined && bits === undefined) return { name: known, bits: 16 };
    if (
      range !== undefined &&
      bits !== undefined &&
      /^[0-9]{1,2}$/.test(bits) &&
      Number(bits) >= range[0] &&
      Number(bits) <= range[1]
    )
      return { name: known, bits: Number(bits) };
  }
  throw new StemmaError(
    "USAGE",
    `${JSON.stringify(text.slice(0, 60))} is not a float scheme. Use one of ${schemeForms}.`,
    { scheme: text.slice(0, 60) },
  );
}

/** The text form in save records and in `--scheme`. */
export function schemeText({ name, bits }: Scheme): string {
  return choices[name] === undefined ? name : `${name}:${bits}`;
}
