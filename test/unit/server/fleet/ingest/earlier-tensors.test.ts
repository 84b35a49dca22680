// Checkpoints travel coded against the one after them in the same stream: what is stored is exactly what was
// sent, also where the store has some of it, where a chain becomes a keyframe, and where a device lies.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { putReceivedTensors } from "../../../../../server/fleet/ingest/uploads/coded-tensors.js";
import { memoryStore } from "../../../../../shared/objects/memory-store.js";
import type { ObjectPruner } from "../../../../../shared/objects/object-store.js";
import { tensorId } from "../../../../../shared/tensor/hash.js";
import {
  sourceOfTensor,
  tensorOfSource,
  type Hash,
  type Tensor,
} from "../../../../../shared/tensor/tensor.js";
import { codeStream, type CodedStream } from "../../../../../shared/wire/coding/code-stream.js";
import {
  checkEncoding,
  codecFormat,
  type AllowedCoding,
} from "../../../../../shared/wire/coding/encodings.js";
import { maxOwnDepth, ownReferences } from "../../../../../shared/wire/coding/references.js";
import { openTensorCoder } from "../../../../../shared/wire/coding/tensor-coder.js";
import type { Encoding } from "../../../../../shared/wire/messages.js";
import { objectsOfStream, streamObjectOfBytes } from "../../../../../shared/wire/transfer/stream.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import { fineTuned, weights } from "../../../../helpers/related-tensors.js";

const id = (tensor: Tensor): Hash => tensorId(tensor, tensor.bytes);
const random = { bytes: (length: number): Uint8Array => new Uint8Array(length) };
const newStore = (): ObjectPruner => memoryStore({ clock: manualClock(), random });
const leaf = (tensor: Tensor) => ({
  path: "w",
  dtype: tensor.dtype,
  shape: tensor.shape,
  tensor: id(tensor),
});

async function storeOf(...tensors: readonly Tensor[]): Promise<ObjectPruner> {
  const store = newStore();
  const pack = await store.begin();
  for (const tensor of tensors) await pack.putTensor(sourceOfTensor(tensor));
  await pack.commit();
  return store;
}

/** The model, then its checkpoints from the last to the first. */
function training(checkpoints: number): readonly Tensor[] {
  const tensors = [weights([24, 40], 3)];
  for (let at = 0; at < checkpoints; at++) tensors.push(fineTuned(tensors.at(-1) as Tensor, 1e-4, at + 9));
  return tensors;
}

interface Sent extends Pick<CodedStream, "encodings"> {
  readonly bytes: Uint8Array;
}
async function send(stream: readonly Tensor[]): Promise<Sent> {
  const [model, ...checkpoints] = stream as [Tensor, ...Tensor[]];
  const objects = await storeOf(...stream);
  const tensors = stream.map(id);
  const coder = openTensorCoder(0);
  const references = ownReferences(
    [leaf(model)],
    [...checkpoints].reverse().map((tensor) => [leaf(tensor)]),
    tensors,
  );
  const spool = {
    append: (bytes: Uint8Array) => Promise.resolve(streamObjectOfBytes(bytes)),
    remove: () => Promise.resolve(),
  };
  const coded = await codeStream(
    { tensors, references, objects, coder, maxTensorBytes: 2 ** 20, format: 1 },
    spool,
  );
  await coder.close();
  const parts: Uint8Array[] = [];
  for (const object of coded.objects) for await (const piece of object.chunks()) parts.push(piece);
  return { encodings: coded.encodings, bytes: new Uint8Array(Buffer.concat(parts)) };
}

async function receive(
  store: ObjectPruner,
  stream: readonly Tensor[],
  { encodings, bytes }: Sent,
): Promise<void> {
  const refs = stream.map((tensor) => ({
    kind: "tensor" as const,
    id: id(tensor),
    byteLength: tensor.bytes.length,
  }));
  const headers = new Map(stream.map((tensor) => [id(tensor), tensor]));
  const allowed: AllowedCoding = {
    codec: codecFormat,
    tensors: new Set(),
    own: new Map(refs.map((ref, at) => [ref.id, at])),
  };
  encodings.forEach((encoding, at) => {
    checkEncoding(encoding, at, refs[at]?.byteLength ?? 0, allowed);
  });
  const coder = openTensorCoder(0);
  const pack = await store.begin();
  try {
    const objects = objectsOfStream(
      refs,
      (tensor) => headers.get(tensor) as Tensor,
      (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)),
      { verifyTensors: false, encodings },
    );
    await putReceivedTensors(pack, store, coder, objects);
    await pack.commit();
  } catch (error) {
    await pack.abort();
    throw error;
  } finally {
    await coder.close();
  }
}

async function assertStored(store: ObjectPruner, stream: readonly Tensor[]): Promise<void> {
  for (const tensor of stream)
    assert.deepEqual((await tensorOfSource(store.openTensor(id(tensor)))).bytes, tensor.bytes);
}

describe("checkpoints that are coded against the next one in their stream", () => {
  it("arrive bit for bit, and take fewer bytes", async () => {
    const stream = training(10);
    const sent = await send(stream);
    const raw = stream.reduce((sum, { bytes }) => sum + bytes.length, 0);
    assert.ok(sent.bytes.length < 0.9 * raw, `${sent.bytes.length} of ${raw} bytes`);
    const own = sent.encodings.filter(({ against }) => against !== undefined).length;
    assert.equal(own, 10);
    const store = newStore();
    await receive(store, stream, sent);
    await assertStored(store, stream);
    const depths = stream.map((tensor) => store.encodingOf(id(tensor))?.depth ?? 0);
    assert.equal(Math.max(...depths), maxOwnDepth);
  });

  it("arrive where the store has every other tensor already, which proves nothing", async () => {
    const stream = training(6);
    const sent = await send(stream);
    const store = await storeOf(...stream.filter((_, at) => at % 2 === 1));
    await receive(store, stream, sent);
    await assertStored(store, stream);
    // The same, but with other bytes for a tensor that the store has.
    const forged = new Uint8Array(sent.bytes);
    const before = sent.encodings.slice(0, 5).reduce((sum, { byteLength }) => sum + byteLength, 0);
    forged[before + 40] = (forged[before + 40] ?? 0) ^ 0xff;
    await assert.rejects(receive(await storeOf(...stream), stream, { ...sent, bytes: forged }));
  });

  it("are refused where a chain is longer than agreed, names what comes later, or two of the stream", async () => {
    const stream = training(7);
    const ids = stream.map(id);
    const coder = openTensorCoder(0);
    const chain = await Promise.all(
      stream.map(async (tensor, at) =>
        at === 0 ? undefined : await coder.encode(tensor, { base: stream[at - 1] }),
      ),
    );
    await coder.close();
    const encodings = chain.map((one, at): Encoding =>
      one === undefined
        ? { code: 0, byteLength: (stream[0] as Tensor).bytes.length }
        : { code: one.code, byteLength: one.bytes.length, against: ids[at - 1] },
    );
    const bytes = new Uint8Array(
      Buffer.concat([(stream[0] as Tensor).bytes, ...chain.flatMap((one) => one?.bytes ?? [])]),
    );
    await assert.rejects(receive(newStore(), stream, { encodings, bytes }), { code: "CHAIN_TOO_LONG" });
    const with5 = (more: Partial<Encoding>): readonly Encoding[] =>
      encodings.map((encoding, at) => (at === 5 ? { ...encoding, ...more } : encoding));
    for (const more of [{ against: ids[5] }, { against: ids[6] }, { previous: ids[3] }])
      await assert.rejects(receive(newStore(), stream, { encodings: with5(more), bytes }), {
        code: "TRANSFER_MANIFEST_INVALID",
      });
  });
});
