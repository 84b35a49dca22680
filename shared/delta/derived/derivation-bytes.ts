/**
 * The bytes of a derivation (docs/codec.md, "Derived"), checked against the tensor and the references when they are
 * read.
 *
 * Bytes: flags u8 ‖ by flag, in this order: count u8 of averaged references; an axis u8 for each axis; axis u8, count
 * of runs and for each (start + 1, 0 for new) and length, varints; octaves i16.
 */
import { dtypeBits } from "../../tensor/dtype.js";
import { hasSameHeader } from "../../tensor/same-header.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { ByteReader, type ByteWriter } from "../bytes.js";
import { encodingMalformed } from "../encoding-malformed.js";
import { maxReferences, type NeededReferences } from "../links.js";
import type { Derivation } from "./derivation.js";
import { canCast, canScale } from "./float-numbers.js";
import type { PositionRun, TakenPositions } from "./positions.js";

const flags = { averaged: 1, axes: 2, taken: 4, octaves: 8 } as const;
const allFlags = 15;
const maxOctaves = 1024;
/** The references that a derivation needs. */
export function needsOf({ averaged }: Pick<Derivation, "averaged">): NeededReferences {
  return { base: true, previous: averaged > 1, ...(averaged > 2 ? { others: averaged - 2 } : {}) };
}

export function writeDerivation(out: ByteWriter, { averaged, axes, taken, octaves }: Derivation): void {
  out.u8(
    (averaged > 1 ? flags.averaged : 0) |
      (axes === undefined ? 0 : flags.axes) |
      (taken === undefined ? 0 : flags.taken) |
      (octaves === undefined ? 0 : flags.octaves),
  );
  if (averaged > 1) out.u8(averaged);
  for (const axis of axes ?? []) out.u8(axis);
  if (taken !== undefined) {
    out.u8(taken.axis);
    out.varint(taken.runs.length);
    for (const { from, length } of taken.runs) {
      out.varint(from + 1);
      out.varint(length);
    }
  }
  if (octaves !== undefined) out.i16(octaves);
}

/** Which references a derived tensor needs, from its first bytes. @throws DELTA_MALFORMED */
export function requiredByDerived(bytes: Uint8Array): NeededReferences {
  const reader = new ByteReader(bytes);
  return needsOf({ averaged: readAveraged(reader, readFlags(reader)) });
}

function readFlags(reader: ByteReader): number {
  const present = reader.u8();
  if (present > allFlags) throw encodingMalformed("its flags name no derivation");
  return present;
}

function readAveraged(reader: ByteReader, present: number): number {
  if ((present & flags.averaged) === 0) return 1;
  const averaged = reader.u8();
  if (averaged < 2 || averaged > maxReferences)
    throw encodingMalformed("it is an average of too few or too many");
  return averaged;
}

/**
 * @param header of the tensor
 * @param references of any type and shape
 * @throws DELTA_MALFORMED
 */
export function readDerivation(
  reader: ByteReader,
  header: TensorHeader,
  references: readonly Tensor[],
): Derivation {
  const present = readFlags(reader);
  const averaged = readAveraged(reader, present);
  const [base, ...others] = references.slice(0, averaged);
  if (base === undefined || 1 + others.length < averaged)
    throw encodingMalformed("what it is derived from is missing");
  checkTypes(header, base);
  if (averaged > 1 && !(canScale(base.dtype) && others.every((other) => hasSameHeader(other, base))))
    throw encodingMalformed("its references have no average");
  const rank = base.shape.length;
  const axes = (present & flags.axes) === 0 ? undefined : Array.from({ length: rank }, () => reader.u8());
  if (axes !== undefined && new Set(axes.filter((axis) => axis < rank)).size !== rank)
    throw encodingMalformed("its axes are not those of its base");
  const shape = axes === undefined ? base.shape : axes.map((axis) => base.shape[axis]!);
  const taken = (present & flags.taken) === 0 ? undefined : readTaken(reader, header.shape, shape);
  const octaves = (present & flags.octaves) === 0 ? undefined : reader.i16();
  if (octaves !== undefined && (Math.abs(octaves) > maxOctaves || !canScale(base.dtype)))
    throw encodingMalformed("its scale is out of range");
  if (taken === undefined && !hasSameHeader({ ...header, shape }, header))
    throw encodingMalformed("its shape does not follow from its base's");
  return { averaged, axes, taken, octaves, dtype: header.dtype };
}

/** Elements must be whole bytes, because positions are moved byte by byte. @throws DELTA_MALFORMED */
function checkTypes(header: TensorHeader, base: TensorHeader): void {
  const areBytes = [header, base].every(({ dtype }) => dtypeBits(dtype) % 8 === 0);
  if (!areBytes || !canCast(base.dtype, header.dtype))
    throw encodingMalformed("its type does not follow from that of its references");
}

/** @param from shape of what positions are taken from @throws DELTA_MALFORMED */
function readTaken(reader: ByteReader, shape: readonly number[], from: readonly number[]): TakenPositions {
  const axis = reader.u8();
  const hasAxis = shape.length === from.length && axis < shape.length;
  if (!hasAxis || !shape.every((size, i) => i === axis || size === from[i]))
    throw encodingMalformed("its rows are not of the length of its base's");
  const runs: PositionRun[] = [];
  let total = 0;
  for (let left = reader.varint(); left > 0; left--) {
    const run = { from: reader.varint() - 1, length: reader.varint() };
    total += run.length;
    const isInBase = run.from < 0 || run.from + run.length <= from[axis]!;
    if (run.length === 0 || total > shape[axis]! || !isInBase)
      throw encodingMalformed("a run of its rows is out of range");
    runs.push(run);
  }
  if (total !== shape[axis]) throw encodingMalformed("its runs of rows do not fill it");
  return { axis, runs };
}
