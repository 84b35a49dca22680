/** What a training takes, as predicted, and that it ends at its limit whatever its record states. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  costText,
  minutesText,
  predictCost,
  refuseTooCostly,
  statedMs,
  tooLong,
  withinTime,
  type CostLimits,
} from "../../../../../server/learning/training/training-cost.js";
import { modelSize, trainingSize } from "../../../../../shared/train/training-size.js";
import { defaultTrainingLimits } from "../../../../../server/services/context/training-limits.js";
import { costLimitsOf } from "../../../../../server/learning/training/bounded-cost.js";
import { TrainingPace } from "../../../../../server/learning/training/training-pace.js";
import type { Architecture, LeafLayer } from "../../../../../shared/model/model.js";
import type { OpenedProvenance } from "../../../../../shared/provenance/openings.js";
import { manualClock } from "../../../../helpers/manual-clock.js";

function openedOf(values: Readonly<Record<string, unknown>>): OpenedProvenance {
  const openings = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, { salt: new Uint8Array(32), value }]),
  );
  return { provenance: {}, openings } as unknown as OpenedProvenance;
}

const parameters = { epochs: { value: 10, from: "call" }, batchSize: { value: 16, from: "default" } };
const opened = openedOf({ parameters, course: { epochs: 5 }, times: { endedAtMs: 1, workMs: 1000 } });

test("the time of a changed story grows with its epochs and its steps", () => {
  assert.equal(statedMs(opened), 1000);
  assert.equal(statedMs(opened, { epochs: 10 }), 2000, "of those that were trained, not of those allowed");
  assert.equal(statedMs(opened, { batchSize: 4 }), 4000);
  assert.equal(statedMs(opened, { batchSize: 64, learningRate: 1 }), 1000);
  assert.equal(statedMs(openedOf({ parameters })), undefined, "redacted");
  for (const workMs of ["x", -1, NaN, Infinity])
    assert.equal(statedMs(openedOf({ times: { workMs } })), undefined);
});

const layer = (
  className: string,
  config: LeafLayer["config"],
  from: number | undefined,
  ...shapes: readonly (readonly number[])[]
): LeafLayer => ({
  className,
  config,
  inputs: from === undefined ? [] : [{ layer: from, output: 0 }],
  weights: shapes.map((shape, index) => ({ name: `w${index}`, dtype: "F32", shape, trainable: true })),
});
const network = (...layers: readonly LeafLayer[]): Architecture => ({
  layers,
  outputs: [{ layer: layers.length - 1, output: 0 }],
});
const input = (...shape: readonly number[]): LeafLayer =>
  layer("InputLayer", { batch_input_shape: [null, ...shape], dtype: "float32" }, undefined);

test("multiplications follow positions: pixels of convolutions, time steps of recurrent layers", () => {
  const pictures = network(
    input(28, 28, 1),
    layer("Conv2D", { filters: 8, kernel_size: [3, 3], strides: [2, 2] }, 0, [3, 3, 1, 8], [8]),
    layer("MaxPooling2D", { pool_size: [2, 2] }, 1),
    layer("Flatten", {}, 2),
    layer("Dense", { units: 10 }, 3, [392, 10], [10]),
  );
  assert.deepEqual(modelSize(pictures), {
    weights: 80 + 3930,
    operations: 80 * 14 * 14 + 3930,
    inputs: 784,
    activations: 784 + 14 * 14 * 8 + 49 * 8 + 392 + 10,
  });
  const sequence = network(
    input(20, 3),
    layer("LSTM", { units: 4, return_sequences: false }, 0, [3, 16], [4, 16], [16]),
    layer("Dense", { units: 1 }, 1, [4, 1]),
  );
  assert.equal(modelSize(sequence).operations, (48 + 64 + 16) * 20 + 4);
});

const small = network(input(4), layer("Dense", { units: 1 }, 0, [4, 1]));
const samples = { train: 1000, validation: 0, heldOut: 0 };
const told = (epochs: number, course: object = {}, workMs = 1000): OpenedProvenance =>
  openedOf({
    parameters: { epochs: { value: epochs }, batchSize: { value: 10 }, patience: { value: 5 } },
    course: { epochs, stoppedEarly: false, ...course },
    times: { workMs },
    data: [{ samples }],
  });

test("what a record states is believed only down to what the fastest machine takes", () => {
  const honest = predictCost(told(10), { architecture: small });
  assert.deepEqual([honest.ms, honest.basis], [1000, "by its record"]);
  const lying = predictCost(told(1e9), { architecture: small });
  assert.ok((lying.ms ?? 0) > 3_600_000 && /epochs/.test(lying.basis));
  assert.ok((predictCost(told(1e9, { epochs: 1 }), { architecture: small }).ms ?? 0) > 3_600_000);
  const early = predictCost(told(1e9, { epochs: 1, stoppedEarly: true }), { architecture: small });
  assert.equal(early.ms, 1000, "it may have stopped early, and is ended at its limit");
  assert.equal(predictCost(told(1e9)).ms, 1000, "of a model that is not known");
  assert.ok(
    (predictCost(told(10, {}, -1), { architecture: small }).ms ?? 0) > 0,
    "of a record that states none",
  );
});

test("what was measured here counts for more than a record", () => {
  const size = trainingSize(small, { samples, epochs: 100, batchSize: 10, members: 1 });
  const measured = [{ workMs: 20_500, size }];
  const { ms, basis } = predictCost(told(50, {}, 1), { architecture: small, measured });
  assert.equal(ms, 10_500);
  assert.match(basis, /an earlier training of its recipe here/);
  const short = predictCost(told(50), { architecture: small, measured: [{ workMs: 600, size }] });
  assert.equal(short.basis, "by its record", "a short run tells nothing of the steps");
});

test("more than is allowed is refused with the prediction, the limit and what raises it", () => {
  const cost = (ms: number | undefined, memoryBytes?: number): void => {
    refuseTooCostly("m:1", { ms, memoryBytes, basis: "by its record" }, limits);
  };
  let limits: CostLimits = { maxMinutes: 60, mostMinutes: 10_080, memoryLimitMb: 100 };
  cost(60 * 60_000, 100 * 1024 ** 2);
  cost(undefined);
  assert.throws(() => cost(61 * 60_000), {
    code: "REPLAY_TOO_LONG",
    message: /61 minutes, by its record, and 60 are allowed.*--max-minutes 122.*limits\.training\.maxMinutes/,
  });
  assert.throws(() => cost(1, 101 * 1024 ** 2), {
    code: "MEMORY_EXHAUSTED",
    message: /101 MiB .*100 are allowed.*limits\.training\.memoryMiB/,
  });
  limits = { ...limits, maxMinutes: 10_080 };
  assert.throws(() => cost(1e300), { code: "REPLAY_TOO_LONG", message: /At most 10080/ });
  limits = { ...limits, maxMinutes: 62 };
  cost(61 * 60_000);
});

/** Work that ends only with its signal. */
const endless = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("ended")));
  });

test("work ends at its limit, and for its caller; what ends before leaves no timer", async () => {
  const clock = manualClock();
  const limited = withinTime(clock, { maxMinutes: 2 }, endless);
  clock.advance(119_999);
  clock.advance(1);
  assert.equal(await limited, tooLong);
  const caller = new AbortController();
  const stopped = withinTime(clock, { maxMinutes: 60, signal: caller.signal }, endless);
  caller.abort();
  await assert.rejects(stopped, /ended/);
  let hasTimer = true;
  const after = { after: () => () => (hasTimer = false) };
  assert.equal(await withinTime(after as never, { maxMinutes: 60 }, () => Promise.resolve(7)), 7);
  assert.equal(hasTimer, false);
});

test("a training is told what it takes, and nothing where no rate is known", () => {
  const limits = { maxMinutes: 60, mostMinutes: 1440, memoryLimitMb: 100 };
  const basis = "by 2 earlier trainings of its recipe here";
  assert.equal(
    costText({ ms: 90_000, memoryBytes: 1, basis }, limits),
    `predicted to take about 2 minutes, ${basis}; it is ended after 60 minutes`,
  );
  assert.match(
    costText({ ms: 90_000, memoryBytes: 1, basis, isLeast: true }, limits),
    /is not known, since no/,
  );
  assert.match(costText({ ms: undefined, memoryBytes: 1, basis }, limits), /is not known; it is ended/);
  assert.deepEqual([1, 59_001, 60_000, 60_001].map(minutesText), ["1 s", "60 s", "1 minute", "2 minutes"]);
});

test("a request allows no more than the owner lets it, and never less than the owner's own limit", () => {
  const limits = { ...defaultTrainingLimits, maxMinutes: 30, requestMinutes: 100 };
  assert.equal(costLimitsOf(limits).maxMinutes, 30);
  assert.equal(costLimitsOf(limits, 99).maxMinutes, 99);
  assert.equal(costLimitsOf(limits, 10_080).maxMinutes, 100);
  assert.equal(costLimitsOf({ ...limits, requestMinutes: 10 }).maxMinutes, 30);
});

test("what is left of a training follows from the steps that were seen", () => {
  const pace = new TrainingPace();
  const at = (iteration: number, atMs: number): number | undefined =>
    pace.leftMs({ phase: "training", iteration, iterations: 1000 }, atMs);
  assert.equal(pace.leftMs({ phase: "reading data" }, 0), undefined);
  assert.equal(at(100, 50_000), undefined, "the first report tells no rate");
  assert.equal(at(110, 52_000), undefined, "too short to tell");
  assert.equal(at(200, 60_000), 80_000);
  assert.equal(at(1000, 140_000), 0);
  assert.equal(new TrainingPace().leftMs({ phase: "evaluating after" }, 1), undefined);
});
