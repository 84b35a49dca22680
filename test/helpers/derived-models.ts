/**
 * Models whose tensors follow from each other in every way that a plan knows: an average of several, a cast, codes with
 * scales, other rows and axes. The same in every process.
 */
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { derive } from "../../shared/delta/derived/derivation.js";
import type { Hash, Tensor } from "../../shared/tensor/tensor.js";
import { modelOf } from "../integration/server/storage/repository/harness.js";
import type { FleetModel } from "./archive-fleet.js";
import { floatsOf, groups, inBytes, symmetric } from "./quantised-tensors.js";
import { fineTuned, weights } from "./related-tensors.js";

const [rows, columns] = [64, 48];

/** The tensors by name; `round` numbers sets that have nothing in common. */
export function derivedTensors(round = 0): ReadonlyMap<string, Tensor> {
  const base = weights([rows, columns], 1 + 100 * round);
  const clients = [1, 2, 3].map((client) => fineTuned(base, 1e-3, 10 * round + client));
  const from = (how: Partial<Parameters<typeof derive>[1]>): Tensor =>
    derive([base], { averaged: 1, dtype: "F32", ...how });
  const average = derive(clients, {
    averaged: 3,
    weighting: { form: "single", counts: [312, 1200, 988], total: 2500 },
    dtype: "F32",
  });
  const fresh = weights([4, columns], 7 + round);
  const grown: Tensor = {
    dtype: "F32",
    shape: [rows + 4, columns],
    bytes: Uint8Array.from([...base.bytes, ...fresh.bytes]),
  };
  const order = Array.from({ length: rows }, (_, row) => ({ from: (row * 35) % rows, length: 1 }));
  const { codes } = symmetric(floatsOf(base), groups.rows(columns), { divisor: 127, min: -127, max: 127 });
  return new Map<string, Tensor>([
    ["base", base],
    ...clients.map((client, i) => [`client-${i}`, client] as const),
    ["average", average],
    ["half", from({ dtype: "BF16" })],
    ["turned", from({ axes: [1, 0] })],
    ["sorted", from({ taken: { axis: 0, runs: order } })],
    ["grown", grown],
    ["int8", inBytes("I8", [rows, columns], codes)],
    ["newest", fineTuned(average, 1e-3, 10 * round + 9)],
  ]);
}

export function derivedModels(round = 0): readonly FleetModel[] {
  return [...derivedTensors(round)].map(([name, tensor]) => ({
    name: `${name} ${round}`,
    ...(name === "base" ? {} : { base: `${name === "newest" ? "average" : "base"} ${round}` }),
    tensors: [{ name: "w", ...tensor }],
  }));
}

/** Saves models as versions of one name, so that all but the last are old. Returns their ids by their own names. */
export async function saveUnderOneName(
  repository: FleetRepository,
  models: readonly FleetModel[],
): Promise<ReadonlyMap<string, Hash>> {
  const ids = new Map<string, Hash>();
  for (const { name, base, tensors } of models) {
    const bases = base === undefined ? {} : { bases: [ids.get(base)!] };
    const { summary } = await repository.save(modelOf(tensors), { name: "m", ...bases });
    ids.set(name, summary.versionId);
  }
  return ids;
}
