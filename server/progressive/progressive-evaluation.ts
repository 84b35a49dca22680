/**
 * Progressive evaluation (ModelHub §IV-D): inputs are answered from the weights' highest byte where that is
 * certain; those left open fetch the next, and what three bytes leave open is answered by the real forward
 * pass over all bytes. So every answer is the full-precision one. Bytes and forward pass come in through
 * ports; knows no store, no engine.
 */
import { StemmaError } from "../../shared/errors.js";
import { weightPlaces } from "../../shared/model/architecture.js";
import type { Architecture } from "../../shared/model/model.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import { sizeOf } from "./bounds.js";
import { compileNetwork } from "./compile-network.js";
import { pass } from "./interval-network.js";
import { agrees, decideTop, topOf, type TopK } from "./top-k.js";
import { allPlanes, weightBounds, type WeightBounds } from "./weight-bounds.js";

/** A tensor's highest byte planes, and how many stored bytes had to be read for them. */
export interface HighPlanes { readonly bytes: Uint8Array; readonly readBytes: number }

/** Where weights come from, by their index in canonical leaf order. */
export interface PlaneReader {
  /** float32 little-endian with only the highest `planes` bytes an element, the rest nought. */
  readHighPlanes(leaf: number, planes: number): Promise<HighPlanes>;
  /** Instead of what follows from the bytes: bounds of another layout of the same weights. */
  boundsOf?(leaf: number, planes: number): Promise<{ readonly bounds: WeightBounds; readonly readBytes: number }>;
}

/** The real forward pass over all bytes. @param inputs samples one after the other @returns as many rows of outputs */
export type ForwardPass = (inputs: Float32Array, count: number) => Promise<Float32Array>;

export interface ProgressiveRequest {
  readonly architecture: Architecture;
  readonly planes: PlaneReader;
  readonly forward: ForwardPass;
  /** `count` samples one after the other. */
  readonly inputs: Float32Array;
  readonly count: number;
  /** Sizes of the answers, such as 1 and 5; each is a question of its own. */
  readonly tops: readonly number[];
  /** Also asks the real forward pass for every input and compares. */
  readonly compare?: boolean;
  readonly onProgress?: (done: { readonly planes: number; readonly sample: number; readonly samples: number }) => Promise<void> | void;
}

export interface LevelReport {
  /** Highest bytes an element that were known; 4: the real forward pass. */
  readonly planes: number;
  /** Of all bytes of the model's tensors, those that were known: biases and statistics are read whole. */
  readonly dataShare: number;
  /** Stored bytes read up to here. */
  readonly readBytes: number;
  /** By top, inputs answered at this level and inputs left open after it. */
  readonly tops: readonly { readonly top: number; readonly decided: number; readonly open: number }[];
}

export interface ProgressiveReport {
  readonly samples: number;
  readonly modelBytes: number;
  readonly levels: readonly LevelReport[];
  /** By top: inputs whose answer needed more than the level before all bytes, whether all answers equal the full ones (null: not compared), inputs without an answer (NaN). */
  readonly tops: readonly { readonly top: number; readonly answers: readonly (TopK | undefined)[]; readonly planes: Uint8Array; readonly equal: boolean | null; readonly unanswerable: number }[];
}

/** Tensors this small in rank (biases, statistics of batch norm) are few bytes that decide much: they are read whole. */
const wholeRank = 1;

/** How many planes of a tensor are known at a level. */
export function planesAt(shape: readonly number[], level: number): number { return shape.length <= wholeRank ? allPlanes : level; }

/** One question while it is asked: its answers, and the level at which each was found. */
class Question {
  readonly answers: (TopK | undefined)[];
  readonly planes: Uint8Array;
  constructor(readonly top: number, count: number) { this.answers = new Array<TopK | undefined>(count); this.planes = new Uint8Array(count); }
  isOpen(sample: number): boolean { return this.planes[sample] === 0; }
  answer(sample: number, answer: TopK | undefined, planes: number): void { this.answers[sample] = answer; this.planes[sample] = planes; }
  get open(): number { return this.planes.reduce((sum, planes) => sum + (planes === 0 ? 1 : 0), 0); }
}

/** @throws PROGRESSIVE_UNSUPPORTED, ARCHITECTURE_MISMATCH, and what the ports throw */
export async function evaluateProgressively(request: ProgressiveRequest): Promise<ProgressiveReport> {
  const { architecture, inputs, count, tops } = request;
  const places = weightPlaces(architecture), modelBytes = places.reduce((sum, { dtype, shape }) => sum + tensorByteLength(dtype, shape), 0);
  const questions = tops.map((top) => new Question(top, count)), levels: LevelReport[] = [];
  const known = new Map<number, { readonly bounds: WeightBounds; readonly readBytes: number }>();
  const report = (planes: number, before: readonly number[], readBytes: number): void => {
    const bytes = places.reduce((sum, { shape }) => sum + sizeOf(shape) * planesAt(shape, planes), 0);
    levels.push({ planes, dataShare: bytes / modelBytes, readBytes, tops: questions.map(({ top, open }, at) => ({ top, decided: before[at]! - open, open })) });
  };
  for (let planes = 1; planes < allPlanes && questions.some(({ open }) => open > 0); planes++) {
    const before = questions.map(({ open }) => open);
    for (const [leaf, { shape }] of places.entries()) if (planes === 1 || planesAt(shape, planes) !== planesAt(shape, planes - 1)) known.set(leaf, await boundsOf(request.planes, leaf, shape, planesAt(shape, planes)));
    const network = compileNetwork(architecture, places.map((_, leaf) => known.get(leaf)!.bounds)), size = sizeOf(network.inputShape);
    if (inputs.length !== size * count) throw new StemmaError("ARCHITECTURE_MISMATCH", `The model takes samples of ${size} numbers, these are ${inputs.length / count} each. Choose data that was made for this model.`);
    for (let sample = 0; sample < count; sample++) {
      if (!questions.some((question) => question.isOpen(sample))) continue;
      const passage = pass(network, inputs.subarray(sample * size, (sample + 1) * size));
      for (const question of questions) {
        const answer = question.isOpen(sample) ? decideTop(network, passage, question.top) : undefined;
        if (answer !== undefined) question.answer(sample, answer, planes);
      }
      await request.onProgress?.({ planes, sample: sample + 1, samples: count });
    }
    report(planes, before, [...known.values()].reduce((sum, { readBytes }) => sum + readBytes, 0));
  }
  const compared = await answerByForward(request, questions, (before, readBytes) => { report(allPlanes, before, readBytes); }, places.map(({ shape }) => shape));
  return { samples: count, modelBytes, levels, tops: questions.map(({ top, answers, planes }, at) => ({ top, answers, planes, equal: compared[at]!, unanswerable: answers.filter((answer) => answer === undefined).length })) };
}

async function boundsOf(reader: PlaneReader, leaf: number, shape: readonly number[], planes: number): Promise<{ readonly bounds: WeightBounds; readonly readBytes: number }> {
  if (reader.boundsOf !== undefined) return reader.boundsOf(leaf, planes);
  const { bytes, readBytes } = await reader.readHighPlanes(leaf, planes);
  return { bounds: weightBounds(shape, bytes, planes), readBytes };
}

/** Answers what is open by the real forward pass; where asked to, compares all answers with it. @returns by question: equal, or null */
async function answerByForward({ forward, inputs, count, compare = false, planes }: ProgressiveRequest, questions: readonly Question[], report: (before: readonly number[], readBytes: number) => void, shapes: readonly (readonly number[])[]): Promise<(boolean | null)[]> {
  const before = questions.map(({ open }) => open), size = inputs.length / count;
  const needed = Array.from({ length: count }, (_, sample) => sample).filter((sample) => compare || questions.some((question) => question.isOpen(sample)));
  if (needed.length === 0) return questions.map(() => null);
  const batch = new Float32Array(needed.length * size);
  needed.forEach((sample, row) => { batch.set(inputs.subarray(sample * size, (sample + 1) * size), row * size); });
  const outputs = await forward(batch, needed.length), width = outputs.length / needed.length;
  const equal = questions.map(() => true);
  needed.forEach((sample, row) => {
    const own = outputs.subarray(row * width, (row + 1) * width);
    questions.forEach((question, at) => {
      const full = topOf(own, question.top);
      if (question.isOpen(sample)) question.answer(sample, full, allPlanes);
      else if (!agrees(question.answers[sample]!, full)) equal[at] = false;
    });
  });
  if (before.some((open) => open > 0)) {
    let readBytes = 0;
    for (const leaf of shapes.keys()) readBytes += (await planes.readHighPlanes(leaf, allPlanes)).readBytes;
    report(before, readBytes);
  }
  return compare ? equal : questions.map(() => null);
}
