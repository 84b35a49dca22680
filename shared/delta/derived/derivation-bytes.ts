/**
 * The bytes of a derivation (docs/codec.md, "Derived"), checked against the tensor and the references when they are
 * read.
 *
 * Bytes: flags u8 ‖ by flag, in this order: count u8 of averaged references; a quantisation (below); a form u8 of
 * blocks; a weighting: form u8, total and for each reference its count, varints, counts in zigzag; an axis u8 for each
 * axis; axis u8, count of runs and for each (start + 1, 0 for new) and length, varints; octaves i16.
 *
 * A quantisation: packing u8, + 8 for codes in two's complement, + 16 for floats of codes ‖ smallest and largest code
 * i16 ‖ grouping u8: 0 all, 1 + axis, 255 and a size varint ‖ rounding u8, + 8 for multiplied by 1 / scale ‖ rule of
 * scales u8, + 16 · their type ‖ rule of zero points u8 ‖ with the rule `fixed` the zero point i16.
 */
import { dtypeBits } from "../../tensor/dtype.js";
import { hasSameHeader } from "../../tensor/same-header.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { ByteReader, type ByteWriter } from "../bytes.js";
import { encodingMalformed } from "../encoding-malformed.js";
import { maxReferences, type NeededReferences } from "../links.js";
import { weightings, type Weighting } from "./average.js";
import { blockForms, fitBlocks, type BlockForm } from "./blocks.js";
import type { Derivation } from "./derivation.js";
import { isFloat8 } from "./float8.js";
import { canCast, canScale } from "./float-numbers.js";
import type { Grouping } from "./groups.js";
import type { PositionRun, TakenPositions } from "./positions.js";
import {
  codesPerByte,
  groupsOf,
  hasCodes,
  packings,
  roundings,
  scaleRules,
  scaleTypes,
  zeroRules,
  type Quantisation,
} from "./quantisation.js";

const flags = {
  averaged: 1,
  axes: 2,
  taken: 4,
  octaves: 8,
  weighting: 16,
  quantisation: 32,
  blocks: 64,
} as const;
const allFlags = 127;
const maxOctaves = 1024;
/** The references that a derivation needs: those that are averaged, and one for scales. */
export function needsOf({
  averaged,
  quantisation,
}: Pick<Derivation, "averaged" | "quantisation">): NeededReferences {
  const count = averaged + (quantisation?.scaleRule === "reference" ? 1 : 0);
  return { base: true, previous: count > 1, ...(count > 2 ? { others: count - 2 } : {}) };
}

export function writeDerivation(out: ByteWriter, derivation: Derivation): void {
  const { averaged, weighting, axes, taken, octaves, quantisation, blocks } = derivation;
  out.u8(
    (averaged > 1 ? flags.averaged : 0) |
      (axes === undefined ? 0 : flags.axes) |
      (taken === undefined ? 0 : flags.taken) |
      (octaves === undefined ? 0 : flags.octaves) |
      (weighting === undefined ? 0 : flags.weighting) |
      (quantisation === undefined ? 0 : flags.quantisation) |
      (blocks === undefined ? 0 : flags.blocks),
  );
  if (averaged > 1) out.u8(averaged);
  if (quantisation !== undefined) writeQuantisation(out, quantisation);
  if (blocks !== undefined) out.u8(blockForms.indexOf(blocks));
  if (weighting !== undefined) {
    out.u8(weightings.indexOf(weighting.form));
    out.varint(weighting.total);
    for (const count of weighting.counts) out.varint(count < 0 ? -2 * count - 1 : 2 * count);
  }
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

function writeQuantisation(out: ByteWriter, quantisation: Quantisation): void {
  const { packing, isSigned, toCodes, min, max, grouping, rounding, isReciprocal } = quantisation;
  out.u8(packings.indexOf(packing) | (isSigned ? 8 : 0) | (toCodes ? 0 : 16));
  out.i16(min);
  out.i16(max);
  if (grouping === "all") out.u8(0);
  else if ("axis" in grouping) out.u8(1 + grouping.axis);
  else {
    out.u8(groupingBySize);
    out.varint(grouping.size);
  }
  out.u8(roundings.indexOf(rounding) | (isReciprocal ? 8 : 0));
  out.u8(scaleRules.indexOf(quantisation.scaleRule) | (16 * scaleTypes.indexOf(quantisation.scaleType)));
  out.u8(zeroRules.indexOf(quantisation.zeroRule));
  if (quantisation.zeroRule === "fixed") out.i16(quantisation.zero);
}

const groupingBySize = 255;

/** Returns which references a derived tensor needs, from its first bytes. @throws DELTA_MALFORMED */
export function requiredByDerived(bytes: Uint8Array): NeededReferences {
  const reader = new ByteReader(bytes);
  const present = readFlags(reader);
  const averaged = readAveraged(reader, present);
  return needsOf({ averaged, quantisation: readQuantisation(reader, present) });
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

/** One of the names that a byte stands for. @throws DELTA_MALFORMED */
function named<Name>(names: readonly Name[], index: number): Name {
  const name = names[index];
  if (name === undefined) throw encodingMalformed("a part of its derivation has an unknown number");
  return name;
}

/** @throws DELTA_MALFORMED */
function readQuantisation(reader: ByteReader, present: number): Quantisation | undefined {
  if ((present & flags.quantisation) === 0) return undefined;
  const form = reader.u8();
  const packing = named(packings, form & 7);
  const [min, max] = [reader.i16(), reader.i16()];
  if (form > 31 || min > 0 || max <= 0 || min < -128 || max > 255)
    throw encodingMalformed("its codes are out of range");
  const grouped = reader.u8();
  const grouping: Grouping =
    grouped === 0 ? "all" : grouped === groupingBySize ? { size: reader.varint() } : { axis: grouped - 1 };
  const rounding = reader.u8();
  const scale = reader.u8();
  const zeroRule = named(zeroRules, reader.u8());
  const quantisation: Quantisation = {
    toCodes: (form & 16) === 0,
    packing,
    isSigned: (form & 8) !== 0,
    min,
    max,
    grouping,
    rounding: named(roundings, rounding & ~8),
    isReciprocal: (rounding & 8) !== 0,
    scaleRule: named(scaleRules, scale & 15),
    scaleType: named(scaleTypes, scale >> 4),
    zeroRule,
    zero: zeroRule === "fixed" ? reader.i16() : 0,
  };
  const { toCodes, scaleRule } = quantisation;
  if (
    !toCodes &&
    ((scaleRule !== "stored" && scaleRule !== "reference") || (zeroRule !== "fixed" && zeroRule !== "stored"))
  )
    throw encodingMalformed("scales of floats do not follow from codes");
  return quantisation;
}

/** @throws DELTA_MALFORMED */
function readWeighting(reader: ByteReader, averaged: number): Weighting {
  const form = named(weightings, reader.u8());
  const total = reader.varint();
  const counts = Array.from({ length: averaged }, () => {
    const zigzag = reader.varint();
    return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
  });
  if (averaged < 2 || total === 0 || (form === "towards" && averaged !== 2))
    throw encodingMalformed("its weights are not those of an average");
  return { form, total, counts };
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
  const quantisation = readQuantisation(reader, present);
  const blocks = (present & flags.blocks) === 0 ? undefined : named(blockForms, reader.u8());
  const [base, ...others] = references.slice(0, averaged);
  if (base === undefined || references.length < (quantisation?.scaleRule === "reference" ? 1 : 0) + averaged)
    throw encodingMalformed("what it is derived from is missing");
  if (blocks === undefined) checkTypes(header, base, quantisation);
  else checkBlocks(header, base, { blocks, present });
  if (averaged > 1 && !(canScale(base.dtype) && others.every((other) => hasSameHeader(other, base))))
    throw encodingMalformed("its references have no average");
  const weighting = (present & flags.weighting) === 0 ? undefined : readWeighting(reader, averaged);
  const rank = base.shape.length;
  const axes = (present & flags.axes) === 0 ? undefined : Array.from({ length: rank }, () => reader.u8());
  if (axes !== undefined && new Set(axes.filter((axis) => axis < rank)).size !== rank)
    throw encodingMalformed("its axes are not those of its base");
  const shape = axes === undefined ? base.shape : axes.map((axis) => base.shape[axis]!);
  if (quantisation !== undefined && (present & flags.taken) !== 0)
    throw encodingMalformed("rows of a quantised tensor are not taken from others");
  const taken = (present & flags.taken) === 0 ? undefined : readTaken(reader, header.shape, shape);
  const octaves = (present & flags.octaves) === 0 ? undefined : reader.i16();
  if (octaves !== undefined && (Math.abs(octaves) > maxOctaves || !canScale(base.dtype)))
    throw encodingMalformed("its scale is out of range");
  if (quantisation !== undefined) checkQuantised(header, { dtype: base.dtype, shape }, quantisation);
  else if (blocks === undefined && taken === undefined && !hasSameHeader({ ...header, shape }, header))
    throw encodingMalformed("its shape does not follow from its base's");
  return { averaged, weighting, axes, taken, octaves, quantisation, blocks, dtype: header.dtype };
}

/** Blocks are of the base alone, as its numbers are in order. @throws DELTA_MALFORMED */
function checkBlocks(
  header: TensorHeader,
  base: TensorHeader,
  { blocks, present }: { readonly blocks: BlockForm; readonly present: number },
): void {
  if (present !== flags.blocks || !fitBlocks(header, base, blocks))
    throw encodingMalformed("its blocks do not follow from its base");
}

/** Elements must be whole bytes, because positions are moved byte by byte. @throws DELTA_MALFORMED */
function checkTypes(header: TensorHeader, base: TensorHeader, quantisation: Quantisation | undefined): void {
  const areBytes = [header, base].every(({ dtype }) => dtypeBits(dtype) % 8 === 0);
  const [floats, codes] = quantisation?.toCodes === true ? [base, header] : [header, base];
  const follows =
    quantisation === undefined
      ? canCast(base.dtype, header.dtype)
      : canScale(floats.dtype) && hasCodes(codes.dtype);
  if (!areBytes || !follows) throw encodingMalformed("its type does not follow from that of its references");
}

/** Requires as many floats as codes, in groups that their shape has. @throws DELTA_MALFORMED */
function checkQuantised(header: TensorHeader, source: TensorHeader, quantisation: Quantisation): void {
  const [floats, codes] = quantisation.toCodes ? [source, header] : [header, source];
  const count = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
  const perByte = codesPerByte(quantisation);
  if (
    count(floats.shape) !== count(codes.shape) * perByte ||
    groupsOf(floats.shape, quantisation) === undefined
  )
    throw encodingMalformed("its shape does not follow from its base's");
  if (isFloat8(codes.dtype) && (perByte > 1 || quantisation.isSigned))
    throw encodingMalformed("8-bit floats are not packed");
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
