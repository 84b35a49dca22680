/**
 * The index of prefixes over catalogs of different shapes, for `stemma bench lineage`: what a model costs to add, by
 * the processor's time, and what a query costs.
 */
import { PostingIndex } from "../../server/storage/lineage/posting-index.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { randomNumbers, type RandomNumbers } from "../helpers/random-architectures.js";

export interface ShapeResult {
  readonly shape: string;
  readonly models: number;
  readonly buildCpuMs: number;
  readonly addCpuUs: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** A query that leaves out a model, at the median. */
  readonly exceptP50Us: number;
  /** Architectures and postings that a query looked at, on average. */
  readonly steps: number;
}

interface Shape {
  readonly shape: string;
  readonly models: number;
  /** Identities of one architecture. */
  readonly make: (random: RandomNumbers) => readonly Hash[];
}

/** Identities of layers in a row, each choice one of so many. */
function chainOf(name: string, layers: number, choose: () => number): Hash[] {
  let prefix = name;
  return Array.from({ length: layers }, () => sha256((prefix += `.${choose()}`)));
}

const stem = chainOf("stem", 50, () => 0);
const shapes: readonly Shape[] = [
  ...[20_000, 160_000, 1_000_000].map((models) => ({ shape: "one architecture", models, make: () => stem })),
  { shape: "chains of 12 layers", models: 100_000, make: (random) => chainOf("c", 12, () => random(4)) },
  {
    shape: "one stem, each its own head",
    models: 100_000,
    make: (random) => [...stem, sha256(`${random(2 ** 31)}`)],
  },
  {
    shape: "3 towers of 4 layers",
    models: 60_000,
    make: (random) => ["a", "b", "c"].flatMap((tower) => chainOf(tower, 4, () => random(4))),
  },
  {
    shape: "5 towers of 2 layers",
    models: 60_000,
    make: (random) => ["a", "b", "c", "d", "e"].flatMap((tower) => chainOf(tower, 2, () => random(3))),
  },
];

function quantile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? 0;
}

function measureShape({ shape, models, make }: Shape, queries: number): ShapeResult {
  const random = randomNumbers(1);
  const index = new PostingIndex();
  let cpuUs = 0;
  // Made in parts before each is measured, so that what a part is made of does not count.
  for (let added = 0; added < models;) {
    const part = Array.from({ length: Math.min(10_000, models - added) }, (_, i) => {
      const identities = make(random);
      const architecture = identities === stem ? sha256(shape) : sha256(identities.join(" "));
      const model = { id: sha256(`model ${added + i}`), savedAtMs: added + i };
      return { identities, architecture, model };
    });
    const before = process.cpuUsage();
    for (const { identities, architecture, model } of part)
      index.add(model, architecture, index.knows(architecture) ? undefined : identities);
    const { user, system } = process.cpuUsage(before);
    cpuUs += user + system;
    added += part.length;
  }
  const asked = Array.from({ length: queries + 200 }, () => make(random));
  // The first ones, in which the code is compiled, are not counted.
  for (const identities of asked.splice(0, 200)) index.longest(identities);
  const timesOf = (ask: (identities: readonly Hash[]) => unknown): readonly number[] =>
    asked.map((identities) => {
      const startedMs = performance.now();
      ask(identities);
      return 1_000 * (performance.now() - startedMs);
    });
  const stepsBefore = index.steps;
  const times = timesOf((identities) => index.longest(identities));
  const steps = (index.steps - stepsBefore) / queries;
  const newest = sha256(`model ${models - 1}`);
  const exceptTimes = timesOf((identities) => index.longestExcept(newest, identities));
  return {
    shape,
    models,
    buildCpuMs: cpuUs / 1_000,
    addCpuUs: cpuUs / models,
    p50Us: quantile(times, 0.5),
    p99Us: quantile(times, 0.99),
    exceptP50Us: quantile(exceptTimes, 0.5),
    steps,
  };
}

/** @param isQuick a tenth of the models */
export function measureShapes(isQuick: boolean): readonly ShapeResult[] {
  return shapes.map((shape) =>
    measureShape({ ...shape, models: isQuick ? shape.models / 10 : shape.models }, isQuick ? 200 : 2_000),
  );
}
