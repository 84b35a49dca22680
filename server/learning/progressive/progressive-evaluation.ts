/**
 * Progressive evaluation (ModelHub §IV-D): a sample is answered from the weights' highest bytes where these
 * make the answer certain. While some samples have no answer, the next byte is read. What three bytes leave
 * open is answered by the real forward pass over all bytes, so every answer is the full-precision one.
 * Weights and forward pass are ports: this file does not use the store or the training engine.
 */
import { weightSlots } from "../../../shared/model/architecture.js";
import type { Architecture } from "../../../shared/model/model.js";
import { decideLevel, type DecideLevel } from "./decide-level.js";
import { agreesWithFull, topKOf, type TopK } from "./top-k.js";
import { floatPlaneCount } from "./weight-bounds.js";
import type { KnownTensor, WeightReader } from "./weight-reader.js";

/** The real forward pass over all bytes. Returns a row of outputs for each of the samples, in their order. */
export type ForwardPass = (samples: readonly number[]) => Promise<Float32Array>;

export interface ProgressiveRequest {
  readonly architecture: Architecture;
  readonly weights: WeightReader;
  readonly forward: ForwardPass;
  /** `count` samples, one after the other. */
  readonly inputs: Float32Array;
  readonly count: number;
  /** The k of each top-k answer, such as 1 and 5; each is a separate question. */
  readonly tops: readonly number[];
  /** True if the real forward pass is run for every sample and all answers are compared with it. */
  readonly compare?: boolean;
  /** The place where a level's work runs; in this thread when absent. */
  readonly decide?: DecideLevel;
  readonly onProgress?: (level: number, done: number, of: number) => void | Promise<void>;
}

export interface LevelReport {
  /** The number of known highest bytes of each element; 4: all, by the real forward pass. */
  readonly level: number;
  /** Share of the tensors' stored bytes that was read up to this level. */
  readonly dataShare: number;
  /** The stored bytes that were read up to this level. */
  readonly readBytes: number;
  /** The samples answered at this level, and those still open after it, for each question. */
  readonly tops: readonly { readonly top: number; readonly decided: number; readonly open: number }[];
}

export interface TopReport {
  readonly top: number;
  /** The answers; undefined where there is none because an output is NaN. */
  readonly answers: readonly (TopK | undefined)[];
  /** The level that answered each sample. */
  readonly levels: Uint8Array;
  /** True if every answer is the full-precision one; null where that was not compared. */
  readonly equal: boolean | null;
}

export interface ProgressiveReport {
  readonly samples: number;
  readonly totalBytes: number;
  readonly levels: readonly LevelReport[];
  readonly tops: readonly TopReport[];
}

/** One question during the evaluation: its answers, and the level at which each was found; 0 while open. */
class Question {
  readonly answers: (TopK | undefined)[];
  readonly levels: Uint8Array;
  constructor(
    readonly top: number,
    count: number,
  ) {
    this.answers = new Array<TopK | undefined>(count);
    this.levels = new Uint8Array(count);
  }
  isOpen(sample: number): boolean {
    return this.levels[sample] === 0;
  }
  answer(sample: number, answer: TopK | undefined, level: number): void {
    this.answers[sample] = answer;
    this.levels[sample] = level;
  }
  openSamples(): number[] {
    return [...this.levels.keys()].filter((sample) => this.isOpen(sample));
  }
}

/** @throws PROGRESSIVE_UNSUPPORTED, ARCHITECTURE_MISMATCH, and what the ports throw */
export async function evaluateProgressively(request: ProgressiveRequest): Promise<ProgressiveReport> {
  const { architecture, weights, inputs, count, tops, decide = decideLevel, onProgress } = request;
  const slots = weightSlots(architecture);
  const questions = tops.map((top) => new Question(top, count));
  const levels: LevelReport[] = [];
  const reportLevel = (
    level: number,
    openBefore: readonly (readonly number[])[],
    readBytes: number,
  ): void => {
    levels.push({
      level,
      dataShare: readBytes / weights.totalBytes,
      readBytes,
      tops: questions.map((question, index) => {
        const open = question.openSamples().length;
        return { top: question.top, decided: openBefore[index]!.length - open, open };
      }),
    });
  };
  for (let level = 1; level < floatPlaneCount; level++) {
    const open = questions.map((question) => question.openSamples());
    if (open.every(({ length }) => length === 0)) break;
    const known: KnownTensor[] = [];
    for (const leaf of slots.keys()) known.push(await weights.read(leaf, level));
    const job = {
      architecture,
      weights: known.map(({ bounds }) => bounds),
      inputs,
      count,
      questions: questions.map(({ top }, index) => ({ top, samples: open[index]! })),
    };
    const answers = await decide(job, (done, of) => onProgress?.(level, done, of));
    questions.forEach((question, index) => {
      open[index]!.forEach((sample, position) => {
        const answer = answers[index]![position];
        if (answer !== undefined) question.answer(sample, answer, level);
      });
    });
    const readBytes = known.reduce((sum, tensor) => sum + tensor.readBytes, 0);
    reportLevel(level, open, readBytes);
  }
  const equal = await answerByForward(request, questions, async (openBefore) => {
    reportLevel(floatPlaneCount, openBefore, await weights.readAll());
  });
  return {
    samples: count,
    totalBytes: weights.totalBytes,
    levels,
    tops: questions.map((question, index) => ({
      top: question.top,
      answers: question.answers,
      levels: question.levels,
      equal: equal?.[index] ?? null,
    })),
  };
}

/**
 * Answers open samples by the real forward pass, and with `compare` compares all answers with it. Returns for
 * each question whether all answers are equal, or undefined where they were not compared.
 */
async function answerByForward(
  { forward, count, compare = false }: ProgressiveRequest,
  questions: readonly Question[],
  reportLastLevel: (openBefore: readonly (readonly number[])[]) => Promise<void>,
): Promise<readonly boolean[] | undefined> {
  const openBefore = questions.map((question) => question.openSamples());
  const open = new Set(openBefore.flat());
  const samples = compare
    ? Array.from({ length: count }, (_, sample) => sample)
    : [...open].sort((a, b) => a - b);
  if (samples.length === 0) return undefined;
  const outputs = await forward(samples);
  const width = outputs.length / samples.length;
  const equal = questions.map(() => true);
  samples.forEach((sample, row) => {
    const sampleOutputs = outputs.subarray(row * width, (row + 1) * width);
    questions.forEach((question, index) => {
      const full = topKOf(sampleOutputs, question.top);
      if (question.isOpen(sample)) question.answer(sample, full, floatPlaneCount);
      else if (!agreesWithFull(question.answers[sample]!, full)) equal[index] = false;
    });
  });
  if (open.size > 0) await reportLastLevel(openBefore);
  return compare ? equal : undefined;
}
