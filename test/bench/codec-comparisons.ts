/**
 * The pairs of models that the codec benchmark measures: given files, or ModelHub's three scenarios (§V-B) on the
 * fine-tunes below STEMMA_DATA, or on generated models when they are not there.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource, type Tensor } from "../../shared/tensor/tensor.js";
import { fineTuned, continueTuning, lowRankPair, weights } from "../helpers/related-tensors.js";
import { inBfloat16, withMergedLora, type Model } from "./low-rank-pairs.js";

export interface Comparison {
  readonly scenario: string;
  readonly base: readonly [string, Model] | undefined;
  readonly child: readonly [string, Model];
  readonly previous?: readonly [string, Model];
}

async function readModel(path: string): Promise<readonly [string, Model]> {
  const read = await readSafetensors(fileOfBytes(new Uint8Array(await readFile(path))), path);
  const tensors = await Promise.all(
    read.tensors.map(async (entry) => [entry.name, await tensorOfSource(read.source(entry))] as const),
  );
  return [basename(path).replace(/\.safetensors$/, ""), new Map(tensors)];
}

/** A small network's shapes, used when there are no files. */
const shapes = [[64, 3, 3, 3], [128, 64, 3, 3], [256, 128, 1, 1], [512, 256], [512], [10, 512], [10]];
function generated(makeTensor: (shape: readonly number[], index: number) => Tensor): Model {
  return new Map(shapes.map((shape, i) => [`layer${i}`, makeTensor(shape, i)]));
}

/**
 * A child that trained only its last layer, as ModelHub's VGG-Salient did: only its last two tensors differ.
 */
function lastLayerOf(
  [name, child]: readonly [string, Model],
  [, base]: readonly [string, Model],
): readonly [string, Model] {
  const changed = new Set([...child.keys()].slice(-2));
  return [
    `${name}, last layer`,
    new Map([...child].map(([key, tensor]) => [key, changed.has(key) ? tensor : (base.get(key) ?? tensor)])),
  ];
}

/** @param files base, child and the model before; none: the scenarios */
export async function comparisonsOf(files: readonly string[]): Promise<readonly Comparison[]> {
  if (files.length > 0) {
    const [base, child, previous] = await Promise.all(files.map(readModel));
    return [
      { scenario: "given", base: base!, child: child!, ...(previous === undefined ? {} : { previous }) },
    ];
  }
  const first = generated((shape, i) => weights(shape, 100 + i));
  const second = generated((shape, i) => weights(shape, 200 + i));
  const retrained: Comparison = {
    scenario: "retrained",
    base: ["generated-1", first],
    child: ["generated-2", second],
  };
  const folder = join(resolve(process.env["STEMMA_DATA"] ?? "../shared/data"), "fine-tunes");
  const named = (name: string): Promise<readonly [string, Model]> =>
    readModel(join(folder, `${name}.safetensors`));
  if (!existsSync(join(folder, "lstm-base.safetensors"))) {
    console.error(`codec: no fine-tunes below ${folder}, so models are generated; set STEMMA_DATA`);
    const tuned = generated((shape, i) => fineTuned(first.get(`layer${i}`)!, 1e-4, 300 + i));
    const next = generated((shape, i) =>
      continueTuning(tuned.get(`layer${i}`)!, first.get(`layer${i}`)!, {
        share: 0.8,
        stepSize: 1e-5,
        seed: 400 + i,
      }),
    );
    return [
      retrained,
      rank16(),
      { scenario: "fine-tuned", base: ["generated-1", first], child: ["generated-1a", tuned] },
      {
        scenario: "adjacent checkpoints",
        base: ["generated-1a", tuned],
        child: ["generated-1b", next],
        previous: ["generated-1", first],
      },
    ];
  }
  const [lstm, mobileNet, checkpoint] = await Promise.all([
    named("lstm-base"),
    named("mnv2-base"),
    named("lstm-sgd1e-3-100"),
  ]);
  const fineTunes = await Promise.all(
    [
      "lstm-sgd1e-3-10",
      "lstm-sgd1e-3-100",
      "lstm-sgd1e-3-200",
      "lstm-adam1e-4-100",
      "mnv2-sgd1e-3-100",
      "mnv2-adam1e-4-100",
    ].map(named),
  );
  return [
    ...[lstm, mobileNet].map((child): Comparison => ({ scenario: "full weights", base: undefined, child })),
    retrained,
    rank16(),
    ...fineTunes.map((child): Comparison => ({
      scenario: "fine-tuned",
      base: child[0].startsWith("lstm") ? lstm : mobileNet,
      child,
    })),
    ...[lstm, mobileNet].map((base): Comparison => ({
      scenario: "merged LoRA",
      base,
      child: [`${base[0]}, LoRA of rank 8`, withMergedLora(base[1])],
    })),
    ...[lstm, mobileNet].map((base): Comparison => ({
      scenario: "merged LoRA",
      base: bfloat16(base),
      child: [`${base[0]} in bfloat16, LoRA of rank 8`, withMergedLora(inBfloat16(base[1]))],
    })),
    ...fineTunes.slice(1).map((child): Comparison => ({
      scenario: "fine-tuned in bfloat16",
      base: bfloat16(child[0].startsWith("lstm") ? lstm : mobileNet),
      child: bfloat16(child),
    })),
    { scenario: "last layer fine-tuned", base: mobileNet, child: lastLayerOf(fineTunes[4]!, mobileNet) },
    { scenario: "adjacent checkpoints", base: checkpoint, child: fineTunes[2]! },
    { scenario: "adjacent checkpoints", base: checkpoint, child: fineTunes[2]!, previous: lstm },
  ];
}

function bfloat16([name, model]: readonly [string, Model]): readonly [string, Model] {
  return [`${name} in bfloat16`, inBfloat16(model)];
}

/** A large matrix and what few steps make of it: the pair for which speeds have aims. */
function rank16(): Comparison {
  const options = { split: 1, rank: 16, size: 3e-4, noise: 2e-4, seed: 16 };
  const { base, child } = lowRankPair("F32", [1024, 1024], options);
  return {
    scenario: "rank 16",
    base: ["generated-3", new Map([["layer0", base]])],
    child: ["generated-3a", new Map([["layer0", child]])],
  };
}
