/**
 * Makes golden packs of format 2: run it by hand for a new format number; no test runs it. The packs hold raw and
 * coded saves, a recoding, byte planes, and tensors of many types and shapes; expected.json lists what was written
 * and in which order.
 *
 *     node dist/test/vectors/make-golden-pack.js test/vectors/packs-2
 *
 * Refuses a folder that exists: existing golden packs stand for what users have on disk and never change.
 */
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { nodeFiles } from "../../shared/files/node-files.js";
import type { CodedTensor } from "../../shared/objects/object-store.js";
import { openPackStore } from "../../shared/objects/pack-store.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../helpers/coded-tensors.js";
import { manualClock, seededRandom } from "../helpers/manual-clock.js";
import { nearlyEqual, noiseTensor, weights } from "../helpers/related-tensors.js";

const folder = resolve(process.argv[2] ?? "");
if (process.argv[2] === undefined || existsSync(folder))
  throw new Error("Name a folder that does not exist yet.");

const [base, first, second, third] = [0, 1, 2, 3].map((member) => memberOf(1, member, [9, 33])) as [
  Tensor,
  Tensor,
  Tensor,
  Tensor,
];
// A signalling NaN, −0, an infinity and a denormal among the weights: bits that a float assignment would change.
const specialValues: Tensor = { ...base, bytes: base.bytes.slice() };
specialValues.bytes.set(new Uint8Array(Uint32Array.of(0x7f800001, 0x80000000, 0x7f800000, 1).buffer), 40);
const close = nearlyEqual(base, 0.95, 3);
const larger = weights([12, 33], 4);
const half = noiseTensor("F16", [7, 5], 5);
const scalar = noiseTensor("I64", [], 6);
const empty: Tensor = { dtype: "F32", shape: [0, 3], bytes: new Uint8Array() };

const packs: readonly { readonly recode: boolean; readonly tensors: readonly (Tensor | CodedTensor)[] }[] = [
  { recode: false, tensors: [base, first, scalar, empty] },
  {
    recode: false,
    tensors: [
      codedAgainst(second, first, base),
      codedAgainst(third, second, undefined, "planes"),
      codedAgainst(specialValues, base),
      codedAgainst(close, base),
      codedAgainst(larger, base),
      codedAgainst(half, undefined, undefined, "planes"),
    ],
  },
  { recode: true, tensors: [codedAgainst(first, base)] },
];

await mkdir(folder, { recursive: true });
const store = await openPackStore(nodeFiles({ fileMode: 0o644, folderMode: 0o755 }), join(folder, "packs"), {
  clock: manualClock(),
  random: seededRandom("golden packs"),
});
const written = [];
for (const { recode, tensors } of packs)
  written.push({
    ...(await writePack(store, tensors, { recode })),
    recode,
    tensors: tensors.map((tensor) =>
      "code" in tensor ? { id: tensor.id, coded: true } : { id: idOfTensor(tensor), coded: false },
    ),
  });
const tensors = [...store.list()].map(({ id, header }) => ({
  id,
  ...header,
  representation: store.encodingOf(id),
}));
await store.close();
await writeFile(
  join(folder, "expected.json"),
  `${JSON.stringify({ format: 2, packs: written, tensors }, undefined, 1)}\n`,
);
