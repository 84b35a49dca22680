/**
 * Sizes of encoded real fine-tunes. Sizes are exact, so a test may assert them; they include all side
 * information and one byte per tensor for its code.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { encodingCodes, type EncodeOptions } from "../../../../shared/delta/encoded.js";
import { seededNumbers } from "../../../../shared/random/seeded-numbers.js";
import { loadDeltaCodec } from "../../../../shared/delta/load.js";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import { tensorOfSource, type Tensor } from "../../../../shared/tensor/tensor.js";

const folder = join(resolve(process.env["STEMMA_DATA"] ?? "../shared/data"), "fine-tunes");
const skip = existsSync(join(folder, "lstm-base.safetensors"))
  ? false
  : `no fine-tunes below ${folder}; set STEMMA_DATA`;

async function tensorsOf(name: string): Promise<ReadonlyMap<string, Tensor>> {
  const read = await readSafetensors(
    fileOfBytes(new Uint8Array(await readFile(join(folder, `${name}.safetensors`)))),
    name,
  );
  return new Map(
    await Promise.all(
      read.tensors.map(async (entry) => [entry.name, await tensorOfSource(read.source(entry))] as const),
    ),
  );
}

/** Bits per parameter of a child; every tensor is decoded again and compared. */
async function bitsOf(
  child: string,
  base?: string,
  previous?: string,
  options: EncodeOptions = {},
): Promise<number> {
  const codec = await loadDeltaCodec();
  const [own, from, before] = await Promise.all([
    tensorsOf(child),
    base === undefined ? undefined : tensorsOf(base),
    previous === undefined ? undefined : tensorsOf(previous),
  ]);
  let bytes = 0;
  let numbers = 0;
  for (const [name, tensor] of own) {
    const references = { base: from?.get(name), previous: before?.get(name) };
    const encoded = codec.encodeTensor(tensor, tensor.bytes, references, options);
    assert.deepEqual(codec.requiredReferences(encoded), encoded.against);
    assert.ok(
      Buffer.from(tensor.bytes).equals(codec.decodeTensor(tensor, encoded, references, tensor.bytes.length)),
      name,
    );
    bytes += encoded.bytes.length + 1;
    numbers += tensor.bytes.length / 4;
  }
  return (8 * bytes) / numbers;
}

/** FM-Delta's bound in bits per parameter: the entropy of its ordered-integer differences. */
const bounds = [
  ["lstm-sgd1e-3-10", 15.895],
  ["lstm-sgd1e-3-100", 18.733],
  ["lstm-sgd1e-3-200", 18.996],
  ["lstm-adam1e-4-100", 23.5],
  ["mnv2-sgd1e-3-100", 18.441],
  ["mnv2-adam1e-4-100", 21.668],
] as const;

for (const [child, bound] of bounds) {
  test(`${child} against its base takes at most 0.97 of FM-Delta's bound`, { skip }, async (context) => {
    const bits = await bitsOf(child, `${child.split("-")[0]}-base`);
    context.diagnostic(`${bits.toFixed(3)} bits a parameter, bound ${bound}`);
    assert.ok(bits <= 0.97 * bound, `${bits}`);
  });
}

/** Bits per parameter with low-rank predictions, factors counted. */
const lowRankBits = [
  ["lstm-sgd1e-3-100", "lstm-base", undefined, 12.8],
  ["lstm-adam1e-4-100", "lstm-base", undefined, 20.6],
  ["mnv2-sgd1e-3-100", "mnv2-base", undefined, 14.7],
  ["mnv2-adam1e-4-100", "mnv2-base", undefined, 19.5],
  ["lstm-sgd1e-3-200", "lstm-sgd1e-3-100", "lstm-base", 12],
] as const;

for (const [child, base, previous, most] of lowRankBits) {
  test(
    `${child} with low-rank predictions takes at most ${most} bits a parameter`,
    { skip },
    async (context) => {
      const bits = await bitsOf(child, base, previous, { lowRank: true });
      context.diagnostic(`${bits.toFixed(3)} bits a parameter`);
      assert.ok(bits <= most, `${bits}`);
    },
  );
}

/** All models of one network, each given each other: also backwards and across optimisers, where little is saved. */
const everyPair = [
  ["lstm-base", "lstm-sgd1e-3-10", "lstm-sgd1e-3-100", "lstm-sgd1e-3-200", "lstm-adam1e-4-100"],
  ["mnv2-base", "mnv2-sgd1e-3-100", "mnv2-adam1e-4-100"],
].flatMap((names) =>
  names.flatMap((base) => names.flatMap((child) => (child === base ? [] : [{ base, child }]))),
);
const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 20_261_122);

test(
  `no pair takes more than 0.1 % above doing without low-rank predictions (${isFull ? "all" : `sampled, seed ${seed}`})`,
  { skip },
  async (context) => {
    const codec = await loadDeltaCodec();
    const random = seededNumbers(seed);
    // Every tensor of the first pair: a sample alone may have none that factors describe.
    const [first, ...others] = everyPair;
    const pairs = [first!, ...others.filter(() => isFull || random() < 0.25)];
    let [withFactors, highestShare] = [0, 0];
    for (const pair of pairs) {
      const { base, child } = pair;
      const [from, own] = [await tensorsOf(base), await tensorsOf(child)];
      const all = [...own].filter(([, { bytes }]) => bytes.length > 0);
      const tensors =
        isFull || pair === first
          ? all
          : Array.from({ length: 3 }, () => all[Math.floor(random() * all.length)]!);
      for (const rounded of isFull ? [false] : [false, true]) {
        let [without, taken] = [0, 0];
        for (const [name, tensor] of tensors) {
          const [raw, reference] = [tensor, from.get(name)!].map((each) =>
            rounded ? inBfloat16(each) : each,
          );
          const lengthWith = (lowRank: boolean): number => {
            const found = codec.encodeTensor(raw!, raw!.bytes, { base: reference }, { lowRank });
            if (found.code === encodingCodes.lowRank) withFactors++;
            return found.bytes.length + 1;
          };
          without += lengthWith(false);
          taken += lengthWith(true);
        }
        highestShare = Math.max(highestShare, taken / without);
        assert.ok(
          taken <= 1.001 * without,
          `${child} given ${base}: ${taken} bytes, ${without} without factors`,
        );
      }
    }
    context.diagnostic(
      `${pairs.length} pairs, ${withFactors} tensors with factors, at most ${highestShare} of without`,
    );
    assert.ok(withFactors > 0, "no tensor of the sample took factors, so nothing was tested");
  },
);

/** A float32 tensor in bfloat16, its low halves cut off. */
function inBfloat16({ dtype, shape, bytes }: Tensor): Tensor {
  if (dtype !== "F32") return { dtype, shape, bytes };
  return { dtype: "BF16", shape, bytes: bytes.filter((_, i) => (i & 3) >= 2) };
}

test("a previous update helps, whichever of the two is the base", { skip }, async (context) => {
  const plain = await bitsOf("lstm-sgd1e-3-200", "lstm-sgd1e-3-100");
  for (const [base, previous] of [
    ["lstm-base", "lstm-sgd1e-3-100"],
    ["lstm-sgd1e-3-100", "lstm-base"],
  ] as const) {
    const extrapolated = await bitsOf("lstm-sgd1e-3-200", base, previous);
    context.diagnostic(`${plain.toFixed(3)} → ${extrapolated.toFixed(3)} bits a parameter`);
    assert.ok(extrapolated < plain && extrapolated < 0.86 * 18.996, `${plain} ${extrapolated}`);
  }
});

for (const model of ["lstm-base", "mnv2-base", "lstm-adam1e-4-100", "mnv2-sgd1e-3-100"]) {
  test(`${model} alone takes at most 83.5 % of raw`, { skip }, async (context) => {
    const share = (await bitsOf(model)) / 32;
    context.diagnostic(`${(100 * share).toFixed(2)} % of raw`);
    assert.ok(share <= 0.835, `${share}`);
  });
}

test("a partial update costs only its changed tensors", { skip }, async (context) => {
  const codec = await loadDeltaCodec();
  const base = await tensorsOf("mnv2-base");
  const tuned = await tensorsOf("mnv2-sgd1e-3-100");
  const last = new Set([...tuned.keys()].slice(-2));
  let changed = 0;
  let unchanged = 0;
  for (const [name, from] of base) {
    const tensor = last.has(name) ? tuned.get(name)! : from;
    const { bytes } = codec.encodeTensor(tensor, tensor.bytes, { base: from });
    if (last.has(name)) changed += bytes.length;
    else unchanged += bytes.length;
  }
  context.diagnostic(`${changed} bytes for ${last.size} tensors, ${unchanged} for ${base.size - last.size}`);
  assert.equal(unchanged, 0);
  const raw = [...last].reduce((sum, name) => sum + tuned.get(name)!.bytes.length, 0);
  // A last layer moves further than the others; encoded alone it would take 0.83 of raw.
  assert.ok(changed > 0 && changed <= 0.75 * raw, `${changed} of ${raw}`);
});
