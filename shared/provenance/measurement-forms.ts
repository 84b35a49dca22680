/** The bytes that savers make of a training's measurements: the two forms that a replay's are compared in. Pure. */
import { isStemmaError } from "../errors.js";
import { encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import type { Measurement } from "../train/training.js";

/** Plain JSON, as devices save it. */
export function plainMeasurements(measurements: readonly Measurement[]): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(measurements));
}

/** Canonical JSON where its numbers allow it, so that equal measurements are one stored object; as servers save it. */
export function canonicalMeasurements(measurements: readonly Measurement[]): Uint8Array {
  const plain = plainMeasurements(measurements);
  try {
    return encodeCanonical(JSON.parse(new TextDecoder().decode(plain)) as CanonicalValue);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return plain;
  }
}

export function measurementForms(measurements: readonly Measurement[]): readonly Uint8Array[] {
  return [plainMeasurements(measurements), canonicalMeasurements(measurements)];
}
