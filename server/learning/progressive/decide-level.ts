/**
 * The work of one level: answers as many questions as the bounds of all weights allow. Pure and
 * self-contained, so that it can run in a worker thread.
 */
import type { Architecture } from "../../../shared/model/model.js";
import { sizeOf } from "./bounds.js";
import { compileNetwork } from "./compile-network.js";
import { propagateBounds, type Propagation } from "./interval-network.js";
import { otherSampleSize } from "./progressive-errors.js";
import { decideTopK, type TopK } from "./top-k.js";
import { tighten } from "./tighten.js";
import type { WeightBounds } from "./weight-bounds.js";

/** A question: which are the `top` largest outputs of each of these samples? */
export interface OpenQuestion {
  readonly top: number;
  readonly samples: readonly number[];
}

export interface LevelJob {
  readonly architecture: Architecture;
  /** The weights in canonical leaf order. */
  readonly weights: readonly WeightBounds[];
  /** `count` samples, one after the other. */
  readonly inputs: Float32Array;
  readonly count: number;
  readonly questions: readonly OpenQuestion[];
}

/** The answers to each question in the order of its samples; undefined where the level leaves one open. */
export type LevelAnswers = readonly (readonly (TopK | undefined)[])[];

/** Runs a level; `onSample` is called after every sample. */
export type DecideLevel = (
  job: LevelJob,
  onSample?: (done: number, of: number) => void | Promise<void>,
) => Promise<LevelAnswers>;

/** The number of tries after which a level stops tightening if fewer than one in this many helped. */
const triesPerSuccess = 12;

/** @throws PROGRESSIVE_UNSUPPORTED, ARCHITECTURE_MISMATCH */
export const decideLevel: DecideLevel = async (
  { architecture, weights, inputs, count, questions },
  onSample,
) => {
  const network = compileNetwork(architecture, weights);
  const size = sizeOf(network.inputShape);
  if (inputs.length !== size * count) throw otherSampleSize(size, inputs.length / count);
  const askedBySample = new Map<number, { readonly question: number; readonly position: number }[]>();
  questions.forEach(({ samples }, question) => {
    samples.forEach((sample, position) => {
      askedBySample.set(sample, [...(askedBySample.get(sample) ?? []), { question, position }]);
    });
  });
  const answers = questions.map(({ samples }) => new Array<TopK | undefined>(samples.length));
  let done = 0;
  let tries = 0;
  let successes = 0;
  for (const [sample, asked] of askedBySample) {
    const propagation = propagateBounds(network, inputs.subarray(sample * size, (sample + 1) * size));
    let tighter: Propagation | undefined;
    let helped = false;
    const tightened =
      tries >= triesPerSuccess && tries > triesPerSuccess * successes
        ? undefined
        : (): Propagation => (tighter ??= tighten(network, propagation));
    for (const { question, position } of asked) {
      const before = tighter;
      const answer = decideTopK(network, propagation, questions[question]!.top, tightened);
      answers[question]![position] = answer;
      if (answer !== undefined && tighter !== before) helped = true;
    }
    if (tighter !== undefined) {
      tries++;
      if (helped) successes++;
    }
    done++;
    await onSample?.(done, askedBySample.size);
  }
  return answers;
};
