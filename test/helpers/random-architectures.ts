/** Random architectures with twins, shared layers and interchangeable heads, for tests of common prefixes. */
import { canonicalOrder } from "../../shared/model/canonical-order.js";
import type { Architecture, LeafLayer } from "../../shared/model/model.js";
import { seededNumbers } from "../../shared/random/seeded-numbers.js";

/** A call of a layer in the order in which somebody wrote it; inputs are positions in that list. */
export interface WrittenLayer {
  readonly className: string;
  readonly config?: LeafLayer["config"];
  readonly inputs: readonly number[];
  /** Extents of its one weight; none: no weights. */
  readonly weight?: readonly number[];
  /** Position of the call whose weights it shares. */
  readonly sharedWith?: number;
}

export interface WrittenModel {
  readonly architecture: Architecture;
  /** For each layer of the architecture its position in the written list. */
  readonly writtenAt: readonly number[];
}

/** The stored form of a written model: canonical order, unused layers left out. */
export function architectureOf(written: readonly WrittenLayer[], outputs: readonly number[]): WrittenModel {
  const calls = written.map(({ className, inputs }) => ({
    className,
    inputs: inputs.map((layer) => ({ layer, output: 0 })),
  }));
  const ends = outputs.map((layer) => ({ layer, output: 0 }));
  const writtenAt = canonicalOrder(calls, ends);
  const indexOf = new Map(writtenAt.map((position, index) => [position, index]));
  /** The first call in canonical order has the weights. */
  const owners = new Map<number, number>();
  const layers = writtenAt.map((position, index): LeafLayer => {
    const { className, config, inputs, weight, sharedWith } = written[position] as WrittenLayer;
    const instance = sharedWith ?? position;
    const owner = owners.get(instance);
    if (owner === undefined) owners.set(instance, index);
    return {
      className,
      config:
        config ?? (className === "InputLayer" ? { batch_input_shape: [null, 4], dtype: "float32" } : {}),
      inputs: inputs.map((input) => ({ layer: indexOf.get(input) as number, output: 0 })),
      weights:
        weight === undefined || owner !== undefined
          ? []
          : [{ name: "kernel", dtype: "F32", shape: weight, trainable: true }],
      ...(owner === undefined ? {} : { sharedWith: owner }),
    };
  });
  return {
    architecture: {
      layers,
      outputs: outputs.map((layer) => ({ layer: indexOf.get(layer) as number, output: 0 })),
    },
    writtenAt,
  };
}

/** Whole numbers from 0 to below `count`. */
export type RandomNumbers = (count: number) => number;

export function randomNumbers(seed: number): RandomNumbers {
  const next = seededNumbers(seed);
  return (count) => Math.floor(next() * count);
}

const kinds = ["Dense", "Add", "Concatenate"] as const;

/**
 * A body: an input and `count` layers of few kinds and widths after random earlier ones, so that twins are
 * frequent; some layers are called again.
 */
export function randomBody(random: RandomNumbers, count: number): WrittenLayer[] {
  const body: WrittenLayer[] = [{ className: "InputLayer", inputs: [] }];
  while (body.length <= count) {
    const kind = kinds[random(4)] ?? "Dense";
    const from = random(body.length);
    if (kind !== "Dense") {
      const other = random(body.length);
      body.push({ className: kind, inputs: [from, other] });
      continue;
    }
    const again = random(8) === 0 ? body.findIndex(({ weight }) => weight !== undefined) : -1;
    const units = 1 + random(2);
    body.push(
      again > 0
        ? { ...(body[again] as WrittenLayer), inputs: [from], sharedWith: again }
        : { className: "Dense", config: { units }, inputs: [from], weight: [4, units] },
    );
  }
  return body;
}

/** Some layers after random ones of the body, and outputs: another head for the same body. */
export function withRandomHead(
  body: readonly WrittenLayer[],
  random: RandomNumbers,
): { readonly written: readonly WrittenLayer[]; readonly outputs: readonly number[] } {
  const written = [...body];
  const outputs: number[] = [];
  for (let i = 1 + random(3); i > 0; i--) {
    const inputs = Array.from({ length: 1 + random(3) }, () => random(body.length));
    written.push({ className: "Concatenate", inputs });
    const units = 10 + random(2);
    written.push({ className: "Dense", config: { units }, inputs: [written.length - 1], weight: [4, units] });
    outputs.push(written.length - 1);
  }
  return { written, outputs };
}

/**
 * A candidate of a search space like EvoStore's: cells of parallel branches in a row, each choice a number; a
 * head at the end. Candidates with equal first choices share their first layers.
 */
export function candidateArchitecture(choices: readonly number[]): Architecture {
  const written: WrittenLayer[] = [{ className: "InputLayer", inputs: [] }];
  let last = 0;
  for (const choice of choices) {
    const branches = [choice % 3, Math.floor(choice / 3) % 3].map((kind) => {
      const units = 16 * (kind + 1);
      return written.push({ className: "Dense", config: { units }, inputs: [last], weight: [4, units] }) - 1;
    });
    const from = choice < 9 ? branches : branches.slice(0, 1);
    last = written.push({ className: choice < 9 ? "Concatenate" : "Activation", inputs: from }) - 1;
  }
  const head = written.push({ className: "Dense", config: { units: 2 }, inputs: [last], weight: [4, 2] }) - 1;
  return architectureOf(written, [head]).architecture;
}

export const cellChoices = 12;

/** Choices of `count` candidates: random ones, and then mutations of earlier ones, as a search makes them. */
export function searchedChoices(count: number, random: RandomNumbers): readonly (readonly number[])[] {
  const cells = 12;
  const found: (readonly number[])[] = [];
  while (found.length < count) {
    const parent = random(10) === 0 ? undefined : found[random(found.length)];
    const choices = parent ?? Array.from({ length: cells }, () => random(cellChoices));
    const mutated = random(cells);
    found.push(choices.map((choice, i) => (i === mutated ? random(cellChoices) : choice)));
  }
  return found;
}

/** With the settings that a saved architecture must have. */
export function savable({ layers, outputs }: Architecture): Architecture {
  const settings: Readonly<Record<string, object>> = {
    Dense: { use_bias: false },
    Activation: { activation: "relu" },
  };
  return {
    layers: layers.map((layer) => ({ ...layer, config: { ...layer.config, ...settings[layer.className] } })),
    outputs,
  };
}
