// Damaged or forged coded tensors, given to the store as a transfer delivers them: the result is a typed
// refusal or exactly the announced tensor, never another tensor or another exception.
import { listEncodingReferences } from "../../../../../shared/wire/encoding-links.js";
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  isMalformedCoding,
  isReferenceLost,
  putCodedTensor,
} from "../../../../../server/fleet/ingest/uploads/coded-tensors.js";
import { depthAgainst, EarlierTensors } from "../../../../../server/fleet/ingest/uploads/earlier-tensors.js";
import { encodingCodes, type References } from "../../../../../shared/delta/encoded.js";
import { loadDeltaCodec } from "../../../../../shared/delta/load.js";
import { memoryStore } from "../../../../../shared/objects/memory-store.js";
import { tensorId as idOfBytes } from "../../../../../shared/tensor/hash.js";
import {
  sourceOfTensor,
  tensorOfSource,
  type Hash,
  type Tensor,
} from "../../../../../shared/tensor/tensor.js";
import { checkEncoding } from "../../../../../shared/wire/coding/encodings.js";
import { openTensorCoder } from "../../../../../shared/wire/coding/tensor-coder.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import {
  fineTuned,
  continueTuning,
  nearlyEqual,
  noiseTensor,
  weights,
} from "../../../../helpers/related-tensors.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import { withOverrides } from "../../../../helpers/with-overrides.js";
import { mutate } from "../../../shared/wire/mutate.js";

const mutations = Number(
  process.env["STEMMA_TEST_MUTATIONS"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 100_000 : 600),
);
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 20_261_121);

function tensorId(tensor: Tensor): Hash {
  return idOfBytes(tensor, tensor.bytes);
}

interface Case {
  readonly tensor: Tensor;
  readonly id: Hash;
  readonly code: number;
  readonly bytes: Uint8Array;
  readonly base?: Hash;
  readonly previous?: Hash;
}

it(`survives ${mutations} altered codings (seed ${seed})`, async () => {
  const codec = await loadDeltaCodec();
  const random = seededNumbers(seed);
  const coder = openTensorCoder(0);
  const base = weights([12, 20], 1);
  const child = fineTuned(base, 1e-4, 2);
  const foreign = noiseTensor("F32", [3, 5], 3);
  const store = memoryStore({ clock: manualClock() });
  const first = await store.begin();
  for (const tensor of [base, child, foreign]) await first.putTensor(sourceOfTensor(tensor));
  await first.commit();
  const held = [base, child, foreign].map(tensorId);
  const of = (tensor: Tensor, references: References): Case => {
    const { code, bytes, against } = codec.encodeTensor(tensor, tensor.bytes, references);
    return {
      tensor,
      id: tensorId(tensor),
      code,
      bytes,
      ...(against.base && { base: tensorId(references.base as Tensor) }),
      ...(against.previous && { previous: tensorId(references.previous as Tensor) }),
    };
  };
  const wide = weights([14, 20], 4);
  wide.bytes.set(child.bytes, 0);
  const cases = [
    of(fineTuned(child, 1e-4, 5), { base: child }),
    of(continueTuning(child, base, { share: 0.8, stepSize: 1e-6, seed: 6 }), { base: child, previous: base }),
    of(nearlyEqual(base, 0.9, 7), { base }),
    of(weights([12, 20], 8), {}),
    of(wide, { base: child }),
  ];
  let taken = 0;
  let refused = 0;
  let keyframes = 0;
  for (let at = 0; at < mutations; at++) {
    const one = cases[at % cases.length] as Case;
    const other = cases[(at + 1) % cases.length] as Case;
    const pick = <T>(honest: T, values: readonly T[]): T =>
      random() < 0.85 ? honest : (values[Math.floor(random() * values.length)] as T);
    const against = pick(one.base, [undefined, ...held]);
    const previous = pick(one.previous, [undefined, ...held]);
    const bytes = new Uint8Array(random() < 0.95 ? mutate(one.bytes, other.bytes, random) : one.bytes);
    const encoding = {
      code: pick(one.code, [...Object.values(encodingCodes), 7, 17, 255]),
      byteLength: bytes.length,
      ...(against && { against }),
      ...(previous && { previous }),
    };
    const pack = await store.begin();
    try {
      // The receiver checks the manifest's encodings first, in the same way.
      checkEncoding(encoding, 0, one.tensor.bytes.length, { codec: 1, tensors: new Set(held) });
      if (encoding.code === encodingCodes.raw) continue;
      // About half as keyframes, which are decoded by ingest (coded-tensors.ts) and not by the store.
      const deep =
        random() < 0.5
          ? withOverrides(store, { encodingOf: () => ({ code: 2, depth: 20, storedBytes: 1 }) })
          : store;
      if (depthAgainst(deep, listEncodingReferences(encoding)) > 8) keyframes++;
      await putCodedTensor(pack, deep, new EarlierTensors(deep, coder), {
        kind: "coded",
        ref: { kind: "tensor", id: one.id, byteLength: one.tensor.bytes.length },
        header: one.tensor,
        encoding,
        read: () => Promise.resolve(bytes),
      });
      await pack.commit();
      taken++;
      assert.deepEqual(
        (await tensorOfSource(store.openTensor(one.id))).bytes,
        one.tensor.bytes,
        `mutation ${at}`,
      );
      await store.collect(await store.planCollection(new Set(held)), () => new Set(held));
    } catch (error) {
      if (
        !isMalformedCoding(error) &&
        !isReferenceLost(error) &&
        (error as { code?: unknown }).code !== "TRANSFER_MANIFEST_INVALID"
      )
        throw new Error(`mutation ${at} of seed ${seed}`, { cause: error });
      refused++;
    } finally {
      await pack.abort();
    }
    assert.ok(!store.has(one.id), `mutation ${at}: nothing of it is left`);
  }
  assert.ok(
    refused > mutations / 2 && taken > 0 && keyframes > mutations / 10,
    `${taken} taken, ${refused} refused, ${keyframes} decoded here`,
  );
  console.log(`# ${mutations} altered codings: ${refused} refused, ${taken} gave the very tensor`);
});
