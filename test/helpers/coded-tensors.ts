/** Related tensors coded against each other, for tests of object stores: chains of fine-tunes drawn by number. */
import assert from "node:assert/strict";
import { createDeltaCodec } from "../../shared/delta/codec.js";
import { plainKernels } from "../../shared/delta/kernels/plain.js";
import type { EncodeOptions } from "../../shared/delta/encoded.js";
import { linksTo, listReferences, neededLinks } from "../../shared/delta/links.js";
import type { CodedTensor, ObjectWriter } from "../../shared/objects/object-store.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import { fineTuned, weights } from "./related-tensors.js";

/** The TypeScript kernels: they write the same bytes as WebAssembly, which the store decodes with. */
const codec = createDeltaCodec(plainKernels());

export function idOfTensor(tensor: Tensor): Hash {
  return tensorId(tensor, tensor.bytes);
}

/** Member number `member` of the chain of fine-tunes numbered `family`. */
export function memberOf(family: number, member: number, shape: readonly number[] = [12, 40]): Tensor {
  return member === 0
    ? weights(shape, 7 + family)
    : fineTuned(memberOf(family, member - 1, shape), 1e-5, 1000 * family + member);
}

/** A tensor coded against `base` and `previous` where given, else on its own. */
export function codedAgainst(
  tensor: Tensor,
  base?: Tensor,
  previous?: Tensor,
  layout: EncodeOptions["layout"] = "packed",
): CodedTensor {
  const { code, bytes, against } = codec.encodeTensor(
    tensor,
    tensor.bytes,
    { ...(base && { base }), ...(previous && { previous }) },
    { layout },
  );
  return {
    id: idOfTensor(tensor),
    header: { dtype: tensor.dtype, shape: tensor.shape },
    code,
    bytes: bytes.slice(),
    ...(against.base && base && { base: idOfTensor(base) }),
    ...(against.previous && previous && { previous: idOfTensor(previous) }),
  };
}

/** A tensor coded as what follows from others, or on its own where there are none. */
export function codedFrom(tensor: Tensor, references: readonly Tensor[]): CodedTensor {
  const { code, bytes, against } = codec.encodeTensor(tensor, tensor.bytes, linksTo(references));
  return {
    id: idOfTensor(tensor),
    header: { dtype: tensor.dtype, shape: tensor.shape },
    code,
    bytes: bytes.slice(),
    ...linksTo(listReferences(neededLinks(linksTo(references), against) ?? {}).map(idOfTensor)),
  };
}

/** Writes one pack: plain tensors raw, coded tensors as they are. */
export async function writePack(
  store: ObjectWriter,
  tensors: readonly (Tensor | CodedTensor)[],
  options: { readonly recode?: boolean } = {},
): Promise<{ readonly pack: string | null; readonly bytes: number }> {
  const pack = await store.begin(options);
  try {
    for (const tensor of tensors)
      await ("code" in tensor ? pack.putCoded(tensor) : pack.putTensor(sourceOfTensor(tensor)));
    return await pack.commit();
  } catch (error) {
    await pack.abort();
    throw error;
  }
}

export async function readBack(
  store: Pick<ObjectWriter, "openTensor">,
  tensor: Tensor | Hash,
  verify = true,
): Promise<Uint8Array> {
  return (
    await tensorOfSource(
      store.openTensor(typeof tensor === "string" ? tensor : idOfTensor(tensor), { verify }),
    )
  ).bytes;
}

/** Asserts that the store returns each tensor bit for bit, with and without verification. */
export async function assertReadable(
  store: Pick<ObjectWriter, "openTensor">,
  ...tensors: readonly Tensor[]
): Promise<void> {
  for (const tensor of tensors)
    for (const verify of [true, false]) assert.deepEqual(await readBack(store, tensor, verify), tensor.bytes);
}
