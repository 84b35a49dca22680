/** The settings that candidates may differ in: their names, the values that `auto` stands for, and drawn ones. Pure. */
import { Streams } from "../../../../shared/random/streams.js";

export type SettingValue = string | number | boolean;
export type Settings = Readonly<Record<string, SettingValue>>;

/** The paper's names, and short ones, of what recipes call otherwise. */
const otherNames: Readonly<Record<string, string>> = {
  base_lr: "learningRate",
  lr: "learningRate",
  batch: "batchSize",
  batch_size: "batchSize",
  input_data: "data",
};

/** The recipe's parameter that a setting is, or `recipe` or `data`. */
export function parameterOf(setting: string): string {
  return Object.hasOwn(otherNames, setting) ? (otherNames[setting] as string) : setting;
}

/** The rate of a layer's own that leaves it as it is, and the word for the rate that all layers have. */
export const rateOfFrozen = 0;
export const rateOfAll = "base";

const optimizers = ["sgd", "momentum", "rmsprop", "adagrad", "adam"];
/** The values of `auto`. */
const grids: Readonly<Record<string, readonly SettingValue[]>> = {
  learningRate: [0.1, 0.01, 0.001],
  batchSize: [16, 32, 64],
  optimizer: optimizers,
};
/** The values that `auto random(n)` draws from, without repeating one. */
const pools: Readonly<Record<string, readonly SettingValue[]>> = {
  learningRate: [1, 2, 3, 4].flatMap((zeros) =>
    Array.from({ length: 90 }, (_, at) => Number(`${(at + 10) / 10}e-${zeros}`)),
  ),
  batchSize: [8, 16, 32, 64, 128, 256],
  optimizer: optimizers,
};

/** Settings that have values for `auto`. */
export const autoSettings: readonly string[] = Object.keys(grids);

export function gridOf(parameter: string): readonly SettingValue[] | undefined {
  return Object.hasOwn(grids, parameter) ? grids[parameter] : undefined;
}

export function poolSize(parameter: string): number {
  return Object.hasOwn(pools, parameter) ? (pools[parameter] ?? []).length : 0;
}

/** @param name of the setting as it is written: each has a stream of its own */
export function drawnValues(
  { name, parameter, count }: { readonly name: string; readonly parameter: string; readonly count: number },
  seed: string,
): readonly SettingValue[] {
  const pool = pools[parameter] ?? [];
  const order = new Streams(seed, 0).stream(`evaluate/${name}`).permutation(pool.length);
  return [...order].slice(0, count).map((at) => pool[at] as SettingValue);
}
