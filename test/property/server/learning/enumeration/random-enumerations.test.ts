/**
 * Random evaluations with a trainer that only knows figures: what is kept is what a plain computation keeps from all
 * figures, and kills at any moment change nothing.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  runEnumeration,
  type CandidateEnd,
  type EnumerationPorts,
  type EnumerationRequest,
} from "../../../../../server/learning/enumeration/run-enumeration.js";
import type { EnumerationEvent } from "../../../../../server/learning/enumeration/enumeration-log.js";
import {
  judgedSteps,
  roundsOf,
  type KeepRule,
} from "../../../../../server/learning/query/evaluate/keep-rule.js";
import { StemmaError } from "../../../../../shared/errors.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import type { TrainedSoFar } from "../../../../../server/learning/enumeration/train-candidate.js";
import type { Measurement } from "../../../../../shared/train/training.js";
import type { TrainingOutcome } from "../../../../../shared/train/train-in-child.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 1);

interface Plain {
  readonly request: EnumerationRequest;
  /** The loss of a candidate after a step, or at its end; null: it cannot be trained so far. */
  readonly loss: (candidate: number, steps: number) => number | null;
  readonly end: number;
}

function randomEvaluation(draw: (below: number) => number): Plain {
  const count = 1 + draw(20);
  const end = 5 + draw(200);
  const iteration = draw(4) === 0 ? undefined : 1 + draw(end);
  const rule: KeepRule =
    draw(4) === 0
      ? { kind: "above", bound: draw(10), lowerIsBetter: false, iteration: undefined, isHalving: false }
      : {
          kind: "top",
          count: 1 + draw(6),
          lowerIsBetter: draw(2) === 0,
          iteration,
          isHalving: iteration !== undefined && draw(2) === 0,
        };
  const table = Array.from({ length: count + 1 }, () => Array.from({ length: 12 }, () => draw(12)));
  const candidates = Array.from({ length: count }, (_, at) => at + 1);
  return {
    request: { rule, figure: "loss", rounds: roundsOf(rule, count), candidates },
    end,
    loss: (candidate, steps) => {
      const value = (table[candidate] as number[])[steps % 12] as number;
      return value === 11 ? null : value;
    },
  };
}

/** Candidates that are kept, the best first, by nothing but all figures. */
function plainlyKept({ request: { rule, rounds, candidates }, loss, end }: Plain): readonly number[] {
  let left = [...candidates];
  for (const { iteration = end, keeps } of rounds) {
    const figures = left.map((candidate) => ({ candidate, figure: loss(candidate, iteration) }));
    const able = figures.filter(
      (each): each is { candidate: number; figure: number } =>
        each.figure !== null && (rule.kind === "top" || each.figure >= (rule.bound ?? 0)),
    );
    able.sort((a, b) => a.candidate - b.candidate);
    able.sort((a, b) => (rule.lowerIsBetter ? a.figure - b.figure : b.figure - a.figure));
    left = able.slice(0, keeps).map(({ candidate }) => candidate);
  }
  return left.filter((candidate) => loss(candidate, end) !== null);
}

class Killed extends Error {}

/**
 * Ports over memory; `isKilled` is asked at every step that a kill could follow or come before. Some trainings are so
 * short that they have ended when they are judged; what an ended one left is gone when it is trained again.
 */
function portsOf(
  { request: { rounds }, loss, end }: Plain,
  events: EnumerationEvent[],
  isKilled: () => boolean,
): EnumerationPorts<TrainingOutcome> & { readonly forgotten: Set<number> } {
  const forgotten = new Set<number>();
  const step = (): void => {
    if (isKilled()) throw new Killed();
  };
  const judged = [...new Set([...rounds.map(({ iteration = end }) => iteration), end])];
  const left = new Map<number, TrainingOutcome>();
  const seen = new Set<number>();
  const trainedTo = (candidate: number, steps: number): TrainedSoFar => {
    const losses = judged.map((iteration) => ({ iteration, loss: loss(candidate, iteration) }));
    const isShort = candidate % 2 === 0 && losses.every((each) => each.loss !== null);
    const until = isShort ? end : steps;
    const measurements = losses
      .filter(({ iteration }) => iteration <= until)
      .map((each) => ({ epoch: 1, learningRate: 1, ...each })) as Measurement[];
    // One that is trained again may be ended as soon as it has its figure.
    const isEndedAgain = seen.has(candidate) && steps < end;
    seen.add(candidate);
    if (until < end || isEndedAgain) return { measurements };
    const outcome = { result: { measurements } } as unknown as TrainingOutcome;
    left.set(candidate, outcome);
    return { measurements, outcome };
  };
  return {
    forgotten,
    concurrency: 1 + (events.length % 3),
    log: {
      events,
      append: (event) => {
        step();
        events.push(JSON.parse(JSON.stringify(event)) as EnumerationEvent);
        step();
        return Promise.resolve();
      },
    },
    train: async (candidate, wanted) => {
      step();
      await Promise.resolve();
      left.delete(candidate);
      assert.ok(!forgotten.has(candidate), "nothing trains what was ruled out");
      const steps = wanted?.steps ?? end;
      if (loss(candidate, steps) === null) throw new StemmaError("NOT_A_NUMBER", "it diverged");
      step();
      return trainedTo(candidate, steps);
    },
    save: (candidate, outcome) => {
      step();
      assert.equal(left.get(candidate), outcome, "its files are there");
      return Promise.resolve(candidate.toString(16).padStart(64, "0") as Hash);
    },
    forget: (candidate) => {
      forgotten.add(candidate);
      return Promise.resolve();
    },
  };
}

const keptOf = (ends: readonly CandidateEnd[]): readonly number[] =>
  ends.flatMap(({ candidate, versionId }) => (versionId === undefined ? [] : [candidate]));

test(`what is kept follows from the figures alone, whenever it is killed (seed ${seed})`, async () => {
  const next = seededNumbers(seed);
  const draw = (below: number): number => Math.floor(next() * below);
  let kills = 0;
  for (let at = 0; at < 50; at++) {
    const plain = randomEvaluation(draw);
    const { request } = plain;
    const whole = portsOf(plain, [], () => false);
    const ends = await runEnumeration(request, whole);
    assert.deepEqual([...keptOf(ends)].sort(), [...plainlyKept(plain)].sort(), JSON.stringify(request));
    assert.equal(whole.forgotten.size, request.candidates.length, "nothing is left on the disk");
    for (const { versionId, reason } of ends) assert.equal(versionId === undefined, reason !== undefined);
    const events: EnumerationEvent[] = [];
    for (let isDone = false; !isDone;) {
      let left = 1 + draw(12);
      const ports = portsOf(plain, events, () => --left === 0);
      isDone = await runEnumeration(request, ports).then(
        (again) => {
          assert.deepEqual(again, ends);
          return true;
        },
        (error: unknown) => {
          assert.ok(error instanceof Killed, String(error));
          kills++;
          return false;
        },
      );
    }
  }
  assert.ok(kills > 10, String(kills));
});

test("rounds come from all candidates to the kept ones, and none judges after a step of an earlier one", () => {
  const rule: KeepRule = { kind: "top", count: 5, lowerIsBetter: true, iteration: 100, isHalving: true };
  assert.deepEqual(roundsOf(rule, 12), [
    { iteration: 50, candidates: 12, keeps: 6 },
    { iteration: 100, candidates: 6, keeps: 5 },
  ]);
  assert.equal(judgedSteps(roundsOf(rule, 12)), 12 * 50 + 6 * 50);
  for (let candidates = 1; candidates < 70; candidates++)
    for (const count of [1, 2, 5, 80])
      for (const iteration of [1, 3, 100]) {
        const rounds = roundsOf({ ...rule, count, iteration }, candidates);
        assert.equal(rounds[0]?.candidates, candidates);
        assert.equal(rounds.at(-1)?.keeps, Math.min(count, candidates));
        assert.equal(rounds.at(-1)?.iteration, iteration);
        for (const [at, round] of rounds.entries()) {
          assert.ok(round.keeps <= round.candidates);
          if (at === 0) continue;
          assert.equal(round.candidates, rounds[at - 1]?.keeps);
          assert.ok((round.iteration ?? 0) > (rounds[at - 1]?.iteration ?? 0));
        }
      }
});
