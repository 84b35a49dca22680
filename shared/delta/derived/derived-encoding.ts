/**
 * Encodes a tensor that follows from others (docs/codec.md, "Derived"). The derived tensor is the base of an
 * ordinary encoding, and new positions are coded without a base.
 *
 * Bytes: the derivation (derivation-bytes.ts) ‖ scales (scaling-bytes.ts) ‖ code u8 and sized bytes of the known
 * positions against the derived tensor ‖ where positions are new, code u8 and bytes of these.
 */
import { tensorByteLength } from "../../tensor/dtype.js";
import { hasSameHeader } from "../../tensor/same-header.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { ByteReader, ByteWriter } from "../bytes.js";
import { encodingCodes, type EncodedTensor, type References } from "../encoded.js";
import { encodingMalformed } from "../encoding-malformed.js";
import { listReferences, maxReferences } from "../links.js";
import { inBlocks } from "./blocks.js";
import { needsOf, readDerivation, writeDerivation } from "./derivation-bytes.js";
import { sourceOf, type Derivation } from "./derivation.js";
import { deriveFound, findDerivation } from "./find.js";
import { cast } from "./float-numbers.js";
import { innerCode, type DecodeInner, type EncodeInner } from "./inner-encodings.js";
import { axisBytes, splitPositions } from "./positions.js";
import { quantised } from "./quantisation.js";
import { readScaling, writeScaling } from "./scaling-bytes.js";

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
  const found = references.base === undefined ? undefined : findDerivation(child, all);
  if (found === undefined) return undefined;
  const { derivation, scaling } = found;
  const { taken, quantisation } = derivation;
  const out = new ByteWriter();
  writeDerivation(out, derivation);
  if (quantisation !== undefined && scaling !== undefined)
    writeScaling(out, quantisation, scaling, encodeInner);
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
  const predicted = deriveFound(all, found, child);
  const inner = encodeInner({ ...known, bytes: parts.known }, predicted.bytes);
  out.u8(inner.code);
  out.sized(inner.bytes);
  if (fresh !== undefined) {
    const added = encodeInner({ ...fresh, bytes: parts.fresh }, undefined);
    out.u8(added.code);
    out.bytes(added.bytes);
  }
  return { code: encodingCodes.derived, bytes: out.finish(), against: needsOf(derivation) };
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
  const all = listReferences(references);
  const derivation = readDerivation(reader, header, all);
  const { known, fresh } = partHeaders(header, derivation.taken);
  const { averaged, quantisation, blocks } = derivation;
  const source = sourceOf(all, derivation);
  const predicted =
    blocks !== undefined
      ? inBlocks(source, blocks, header)
      : quantisation === undefined
        ? cast(source, header.dtype)
        : quantised(
            source,
            quantisation,
            readScaling(reader, { source, header, quantisation, reference: all[averaged] }, decodeInner),
            header,
          );
  if (!hasSameHeader(known, predicted)) throw encodingMalformed("its shape does not follow from its base's");
  const inner = decodeInner(known, { code: innerCode(reader), bytes: reader.sized() }, predicted.bytes);
  const added =
    fresh === undefined
      ? new Uint8Array()
      : decodeInner(fresh, { code: innerCode(reader), bytes: reader.rest() }, undefined);
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its last part");
  const { taken } = derivation;
  if (taken === undefined) target.set(inner);
  else
    splitPositions(target, axisBytes(header.dtype, header.shape, taken.axis), taken.runs, {
      known: inner,
      fresh: added,
      join: true,
    });
}
