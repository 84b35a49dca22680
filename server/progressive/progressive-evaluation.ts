/**
 * Progressive evaluation (ModelHub §IV-D): inputs are answered from the weights' highest byte where that is
 * certain; those left open fetch the next, and what three bytes leave open is answered by the real forward
 * pass over all bytes. So every answer is the full-precision one. Bytes and forward pass come in through
 * ports; knows no store, no engine.
 */
import { weightSlots } from "../../shared/model/architecture.js";
import type { Architecture } from "../../shared/model/model.js";
import { decideLevel, type DecideLevel } from "./decide-level.js";
import { agrees, topOf, type TopK } from "./top-k.js";
import { allPlanes } from "./weight-bounds.js";
import type { KnownTensor, WeightReader } from "./weight-reader.js";

/** The real forward pass over all bytes. @returns a row of outputs for each of the samples, in their order */
export type ForwardPass = (samples: readonly number[]) => Promise<Float32Array>;

export interface ProgressiveRequest {
  readonly architecture: Architecture;
  readonly weights: WeightReader;
  readonly forward: ForwardPass;
  /** `count` samples one after the other. */
  readonly inputs: Float32Array;
  readonly count: number;
  /** Sizes of the answers, such as 1 and 5; each is a question of its own. */
  readonly tops: readonly number[];
  /** Also asks the real forward pass for every sample, and compares. */
  readonly compare?: boolean;
  /** Where a level's work runs; in this very thread when absent. */
  readonly decide?: DecideLevel;
  readonly onProgress?: (level: number, done: number, of: number) => void | Promise<void>;
}

export interface LevelReport {
  /** Highest bytes of an element that were known; 4: all, by the real forward pass. */
  readonly level: number;
  /** Of the tensors' stored bytes, those read up to here. */
  readonly dataShare: number;
  /** Those bytes. */
  readonly readBytes: number;
  /** By top: samples answered at this level, samples still open after it. */
  readonly tops: readonly { readonly top: number; readonly decided: number; readonly open: number }[];
}

export interface TopReport {
  readonly top: number;
  /** Undefined where there is none: an output is NaN. */
  readonly answers: readonly (TopK | undefined)[];
  /** By sample: the level that answered it. */
  readonly levels: Uint8Array;
  /** Whether every answer is the full-precision one; null where that was not asked. */
  readonly equal: boolean | null;
}

export interface ProgressiveReport {
  readonly samples: number;
  readonly totalBytes: number;
  readonly levels: readonly LevelReport[];
  readonly tops: readonly TopReport[];
}

/** One question while it is asked: its answers, and the level at which each was found. */
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
  open(): number[] {
    return [...this.levels.keys()].filter((sample) => this.isOpen(sample));
  }
}

/** @throws PROGRESSIVE_UNSUPPORTED, ARCHITECTURE_MISMATCH, and what the ports throw */
export async function evaluateProgressively(request: ProgressiveRequest): Promise<ProgressiveReport> {
  const { architecture, weights, inputs, count, tops, decide = decideLevel, onProgress } = request;
  const places = weightSlots(architecture);
  const questions = tops.map((top) => new Question(top, count));
  const levels: LevelReport[] = [];
  const report = (level: number, before: readonly (readonly number[])[], readBytes: number): void => {
    levels.push({
      level,
      dataShare: readBytes / weights.totalBytes,
      readBytes,
      tops: questions.map((question, at) => {
        const open = question.open().length;
        return { top: question.top, decided: before[at]!.length - open, open };
      }),
    });
  };
  for (let level = 1; level < allPlanes; level++) {
    const open = questions.map((question) => question.open());
    if (open.every(({ length }) => length === 0)) break;
    const known: KnownTensor[] = [];
    for (const leaf of places.keys()) known.push(await weights.read(leaf, level));
    const job = {
      architecture,
      weights: known.map(({ bounds }) => bounds),
      inputs,
      count,
      questions: questions.map(({ top }, at) => ({ top, samples: open[at]! })),
    };
    const answers = await decide(job, (done, of) => onProgress?.(level, done, of));
    questions.forEach((question, at) => {
      open[at]!.forEach((sample, place) => {
        const answer = answers[at]![place];
        if (answer !== undefined) question.answer(sample, answer, level);
      });
    });
    report(
      level,
      open,
      known.reduce((sum, { readBytes }) => sum + readBytes, 0),
    );
  }
  const equal = await answerByForward(request, questions, async (before) => {
    report(allPlanes, before, await weights.readAll());
  });
  return {
    samples: count,
    totalBytes: weights.totalBytes,
    levels,
    tops: questions.map(({ top, answers, levels: by }, at) => ({
      top,
      answers,
      levels: by,
      equal: equal?.[at] ?? null,
    })),
  };
}

/**
 * Answers what is open by the real forward pass; where asked to, compares all answers with it. @returns by
 * question whether they are equal, or undefined
 */
async function answerByForward(
  { forward, count, compare = false }: ProgressiveRequest,
  questions: readonly Question[],
  report: (before: readonly (readonly number[])[]) => Promise<void>,
): Promise<readonly boolean[] | undefined> {
  const before = questions.map((question) => question.open());
  const open = new Set(before.flat());
  const samples = compare
    ? Array.from({ length: count }, (_, sample) => sample)
    : [...open].sort((a, b) => a - b);
  if (samples.length === 0) return undefined;
  const outputs = await forward(samples);
  const width = outputs.length / samples.length;
  const equal = questions.map(() => true);
  samples.forEach((sample, row) => {
    const own = outputs.subarray(row * width, (row + 1) * width);
    questions.forEach((question, at) => {
      const full = topOf(own, question.top);
      if (question.isOpen(sample)) question.answer(sample, full, allPlanes);
      else if (!agrees(question.answers[sample]!, full)) equal[at] = false;
    });
  });
  if (open.size > 0) await report(before);
  return compare ? equal : undefined;
}
