/**
 * One level's work, pure and self-contained so that it can run in a thread of its own: from bounds of all
 * weights and samples to the questions they answer.
 */
import type { Architecture } from "../../shared/model/model.js";
import { StemmaError } from "../../shared/errors.js";
import { sizeOf } from "./bounds.js";
import { compileNetwork } from "./compile-network.js";
import { pass, type Passage } from "./interval-network.js";
import { decideTop, type TopK } from "./top-k.js";
import { tighten } from "./tighten.js";
import type { WeightBounds } from "./weight-bounds.js";

/** The k largest outputs of some samples. */
export interface OpenQuestion {
  readonly top: number;
  readonly samples: readonly number[];
}

export interface LevelJob {
  readonly architecture: Architecture;
  /** In canonical leaf order. */
  readonly weights: readonly WeightBounds[];
  /** `count` samples one after the other. */
  readonly inputs: Float32Array;
  readonly count: number;
  readonly questions: readonly OpenQuestion[];
}

/** By question, in the order of its samples: an answer, or undefined where the level leaves it open. */
export type LevelAnswers = readonly (readonly (TopK | undefined)[])[];

/** Runs a level; `onSample` hears of every sample that was passed. */
export type DecideLevel = (
  job: LevelJob,
  onSample?: (done: number, of: number) => void | Promise<void>,
) => Promise<LevelAnswers>;

/** Tightening is given up for a level where it helped fewer than one of so many samples. */
const enoughTries = 12;

/** @throws PROGRESSIVE_UNSUPPORTED, ARCHITECTURE_MISMATCH */
export const decideLevel: DecideLevel = async (
  { architecture, weights, inputs, count, questions },
  onSample,
) => {
  const network = compileNetwork(architecture, weights);
  const size = sizeOf(network.inputShape);
  if (inputs.length !== size * count)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The model takes samples of ${size} numbers, these are ${inputs.length / count} each. Choose data that was made for this model.`,
    );
  const asked = new Map<number, { readonly question: number; readonly place: number }[]>();
  questions.forEach(({ samples }, question) => {
    samples.forEach((sample, place) => {
      asked.set(sample, [...(asked.get(sample) ?? []), { question, place }]);
    });
  });
  const answers = questions.map(({ samples }) => new Array<TopK | undefined>(samples.length));
  let done = 0;
  let tries = 0;
  let successes = 0;
  for (const [sample, places] of asked) {
    const passage = pass(network, inputs.subarray(sample * size, (sample + 1) * size));
    let tighter: Passage | undefined;
    let helped = false;
    const tightened =
      tries >= enoughTries && tries > enoughTries * successes
        ? undefined
        : (): Passage => (tighter ??= tighten(network, passage));
    for (const { question, place } of places) {
      const before = tighter;
      const answer = decideTop(network, passage, questions[question]!.top, tightened);
      answers[question]![place] = answer;
      if (answer !== undefined && tighter !== before) helped = true;
    }
    if (tighter !== undefined) {
      tries++;
      if (helped) successes++;
    }
    await onSample?.(++done, asked.size);
  }
  return answers;
};
