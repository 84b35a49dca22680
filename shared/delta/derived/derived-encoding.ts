/**
 * A tensor that follows from others (docs/codec.md, "Derived"): the derived tensor is the base of an ordinary encoding,
 * and new positions are coded without a base.
 *
 * Bytes: flags u8 ‖ by flag, in this order: count u8 of averaged references; an axis u8 for each axis; axis u8, count
 * of runs and for each (start + 1, 0 for new) and length, varints; octaves i16 ‖ code u8 and sized bytes of the known
 * positions against the derived tensor ‖ where positions are new, code u8 and bytes of these.
 */
import { tensorByteLength } from "../../tensor/dtype.js";
import { hasSameHeader } from "../../tensor/same-header.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { ByteReader, ByteWriter } from "../bytes.js";
import { encodingCodes, type EncodedTensor, type References } from "../encoded.js";
import { encodingMalformed } from "../encoding-malformed.js";
import { listReferences, maxReferences, type NeededReferences } from "../links.js";
import {
  axisBytes,
  canCast,
  canScale,
  derive,
  splitPositions,
  type Derivation,
  type PositionRun,
} from "./derivation.js";
import { findDerivation } from "./find.js";

const flags = { averaged: 1, axes: 2, taken: 4, octaves: 8 } as const;
const allFlags = 15;
const maxOctaves = 1024;
/** Encodings that the known and the new positions may have. */
const innerCodes: ReadonlySet<number> = new Set([
  encodingCodes.raw,
  encodingCodes.equal,
  encodingCodes.packed,
  encodingCodes.rans,
  encodingCodes.planes,
  encodingCodes.parts,
]);

/** Encodes a tensor as a part against a base of its type and shape, or without one. */
type EncodeInner = (tensor: Tensor, base: Uint8Array | undefined) => EncodedTensor;
/** Decodes such a part. */
export type DecodeInner = (
  header: TensorHeader,
  encoded: { readonly code: number; readonly bytes: Uint8Array },
  base: Uint8Array | undefined,
) => Uint8Array;

/** The known part of a header, and what is new, where positions of an axis are taken from the base. */
function partHeaders(
  { dtype, shape }: TensorHeader,
  taken: Derivation["taken"],
): { readonly known: TensorHeader; readonly fresh: TensorHeader | undefined } {
  if (taken === undefined) return { known: { dtype, shape }, fresh: undefined };
  const count = taken.runs.reduce((sum, { from, length }) => sum + (from < 0 ? 0 : length), 0);
  const withSize = (size: number): TensorHeader => ({
    dtype,
    shape: shape.map((each, axis) => (axis === taken.axis ? size : each)),
  });
  const isComplete = count === shape[taken.axis];
  return { known: withSize(count), fresh: isComplete ? undefined : withSize(shape[taken.axis]! - count) };
}

/** Returns undefined where the tensor does not follow from its references. */
export function encodeDerived(
  child: Tensor,
  references: References,
  encodeInner: EncodeInner,
): EncodedTensor | undefined {
  const all = listReferences(references).slice(0, maxReferences);
  const derivation = references.base === undefined ? undefined : findDerivation(child, all);
  if (derivation === undefined) return undefined;
  const out = new ByteWriter();
  writeDerivation(out, derivation);
  const { taken } = derivation;
  const { known, fresh } = partHeaders(child, taken);
  const parts = {
    known: new Uint8Array(tensorByteLength(known.dtype, known.shape)),
    fresh: new Uint8Array(fresh === undefined ? 0 : tensorByteLength(fresh.dtype, fresh.shape)),
  };
  if (taken === undefined) parts.known.set(child.bytes);
  else
    splitPositions(child.bytes, axisBytes(child.dtype, child.shape, taken.axis), taken.runs, {
      ...parts,
      join: false,
    });
  const predicted = derive(all, derivation);
  const inner = encodeInner({ ...known, bytes: parts.known }, predicted.bytes);
  out.u8(inner.code);
  out.sized(inner.bytes);
  if (fresh !== undefined) {
    const added = encodeInner({ ...fresh, bytes: parts.fresh }, undefined);
    out.u8(added.code);
    out.bytes(added.bytes);
  }
  return { code: encodingCodes.derived, bytes: out.finish(), against: needsOf(derivation.averaged) };
}

function needsOf(averaged: number): NeededReferences {
  return { base: true, previous: averaged > 1, ...(averaged > 2 ? { others: averaged - 2 } : {}) };
}

function writeDerivation(out: ByteWriter, { averaged, axes, taken, octaves }: Derivation): void {
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

/** Which references a derived tensor needs. @throws DELTA_MALFORMED */
export function requiredByDerived(bytes: Uint8Array): NeededReferences {
  const reader = new ByteReader(bytes);
  return needsOf(readAveraged(reader, readFlags(reader)));
}

function readFlags(reader: ByteReader): number {
  const own = reader.u8();
  if (own > allFlags) throw encodingMalformed("its flags name no derivation");
  return own;
}

function readAveraged(reader: ByteReader, own: number): number {
  if ((own & flags.averaged) === 0) return 1;
  const averaged = reader.u8();
  if (averaged < 2 || averaged > maxReferences)
    throw encodingMalformed("it is an average of too few or too many");
  return averaged;
}

/**
 * @param header of the tensor
 * @param references those that it needs are given; they may have any type and shape
 * @throws DELTA_MALFORMED
 */
export function decodeDerived(
  header: TensorHeader,
  { bytes, references }: { readonly bytes: Uint8Array; readonly references: References },
  decodeInner: DecodeInner,
  target: Uint8Array,
): void {
  const reader = new ByteReader(bytes);
  const own = readFlags(reader);
  const averaged = readAveraged(reader, own);
  const all = listReferences(references).slice(0, averaged);
  const base = all[0];
  if (base === undefined || all.length < averaged)
    throw encodingMalformed("what it is derived from is missing");
  if (!canCast(base.dtype, header.dtype) || (averaged > 1 && !isAverageable(all)))
    throw encodingMalformed("its type does not follow from that of its references");
  const derivation = readDerivation(reader, own, { averaged, header, base });
  const { known, fresh } = partHeaders(header, derivation.taken);
  const predicted = derive(all, derivation);
  if (!hasSameHeader(known, predicted)) throw encodingMalformed("its shape does not follow from its base's");
  const inner = decodeInner(known, { code: innerCode(reader), bytes: reader.sized() }, predicted.bytes);
  const added =
    fresh === undefined
      ? new Uint8Array()
      : decodeInner(fresh, { code: innerCode(reader), bytes: reader.rest() }, undefined);
  if (reader.left > 0) throw encodingMalformed("bytes follow its last part");
  const { taken } = derivation;
  if (taken === undefined) target.set(inner);
  else
    splitPositions(target, axisBytes(header.dtype, header.shape, taken.axis), taken.runs, {
      known: inner,
      fresh: added,
      join: true,
    });
}

function isAverageable(all: readonly Tensor[]): boolean {
  return canScale(all[0]!.dtype) && all.every((each) => hasSameHeader(each, all[0]!));
}

function innerCode(reader: ByteReader): number {
  const code = reader.u8();
  if (!innerCodes.has(code)) throw encodingMalformed("a part has another code than it may have");
  return code;
}

/** @throws DELTA_MALFORMED */
function readDerivation(
  reader: ByteReader,
  own: number,
  {
    averaged,
    header,
    base,
  }: { readonly averaged: number; readonly header: TensorHeader; readonly base: Tensor },
): Derivation {
  const rank = base.shape.length;
  const axes = (own & flags.axes) === 0 ? undefined : Array.from({ length: rank }, () => reader.u8());
  if (axes !== undefined && new Set(axes.filter((axis) => axis < rank)).size !== rank)
    throw encodingMalformed("its axes are not those of its base");
  const shape = axes === undefined ? base.shape : axes.map((axis) => base.shape[axis]!);
  const taken = (own & flags.taken) === 0 ? undefined : readTaken(reader, header.shape, shape);
  const octaves = (own & flags.octaves) === 0 ? undefined : reader.i16();
  if (octaves !== undefined && (Math.abs(octaves) > maxOctaves || !canScale(base.dtype)))
    throw encodingMalformed("its scale is out of range");
  if (taken === undefined && !hasSameHeader({ ...header, shape }, header))
    throw encodingMalformed("its shape does not follow from its base's");
  return { averaged, axes, taken, octaves, dtype: header.dtype };
}

/** @param from shape of what positions are taken from @throws DELTA_MALFORMED */
function readTaken(
  reader: ByteReader,
  shape: readonly number[],
  from: readonly number[],
): NonNullable<Derivation["taken"]> {
  const axis = reader.u8();
  const hasAxis = shape.length === from.length && axis < shape.length;
  if (!hasAxis || !shape.every((size, i) => i === axis || size === from[i]))
    throw encodingMalformed("its rows are not of the length of its base's");
  const runs: PositionRun[] = [];
  let total = 0;
  for (let left = reader.varint(); left > 0; left--) {
    const run = { from: reader.varint() - 1, length: reader.varint() };
    total += run.length;
    if (run.length === 0 || total > shape[axis]! || run.from + run.length > from[axis]!) {
      const isNew = run.from < 0 && run.length > 0 && total <= shape[axis]!;
      if (!isNew) throw encodingMalformed("a run of its rows is out of range");
    }
    runs.push(run);
  }
  if (total !== shape[axis]) throw encodingMalformed("its runs of rows do not fill it");
  return { axis, runs };
}
