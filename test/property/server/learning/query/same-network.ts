/** Derives models of random networks, and runs what comes of it. */
import assert from "node:assert/strict";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import type { DerivedModel } from "../../../../../server/learning/query/derive/derive-models.js";
import type { TensorFlow } from "../../../../../shared/train/tensorflow.js";
import {
  checkInheritance,
  derive,
  outputsOf,
  randomInputs,
  randomMutation,
  randomNetwork,
  tensorsOf,
  type Numbers,
  type PlainNetwork,
} from "../../../../helpers/derived-networks.js";
import type { Draw } from "../../../../helpers/query-fleet.js";

export interface Ends {
  made: number;
  sliced: number;
  refused: number;
}

export async function deriveRandomly(tf: TensorFlow, seed: number, networks: number): Promise<Ends> {
  const ends = { made: 0, sliced: 0, refused: 0 };
  for (let at = 0; at < networks; at++) {
    const next = seededNumbers(seed + at);
    const draw: Draw = (below) => Math.floor(next() * below);
    const network = randomNetwork(draw);
    for (let each = 0; each < 3; each++) {
      const text = randomMutation(network, draw);
      const where = `seed ${seed + at}: ${text}\n${network.names.join(" ")}`;
      const model = await derive(network, text);
      if (typeof model !== "object") {
        assert.ok(model === undefined || model.length > 10, where);
        ends.refused++;
        continue;
      }
      try {
        checkInheritance(model, network);
        await run(tf, { network, model, isSlice: text.startsWith("slice") }, seed + at);
      } catch (error) {
        throw new Error(where, { cause: error });
      }
      ends[text.startsWith("slice") ? "sliced" : "made"]++;
    }
  }
  return ends;
}

interface Made {
  readonly network: PlainNetwork;
  readonly model: DerivedModel;
  readonly isSlice: boolean;
}

/** A slice gives, bit for bit, what its last layers give in the whole network where it gets what its first ones get. */
async function run(tf: TensorFlow, { network, model, isSlice }: Made, seed: number): Promise<void> {
  const tensors = await tensorsOf(model, network);
  const { architecture, names } = model;
  if (!isSlice) {
    outputsOf(tf, { architecture, tensors }, randomInputs(architecture, seed));
    return;
  }
  const inputNames = names.filter((_, at) => architecture.layers[at]?.className === "InputLayer");
  const places = inputNames.map((name) => network.names.indexOf(name.replace(/_output$/, "")));
  const ends = architecture.outputs.map(({ layer }) => network.names.indexOf(names[layer] ?? ""));
  const wanted = [...new Set([...places, ...ends])];
  const all = outputsOf(
    tf,
    network,
    randomInputs(network.architecture, seed),
    wanted.map((layer) => ({ layer, output: 0 })),
  );
  const of = (layers: readonly number[]): typeof all =>
    layers.map((layer) => all[wanted.indexOf(layer)] as Numbers);
  assert.deepEqual(outputsOf(tf, { architecture, tensors }, of(places)), of(ends));
}
