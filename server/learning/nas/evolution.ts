/**
 * Searches by aged evolution, as EvoStore does (EV6). It follows Real and others (2019): the best of a random
 * sample of the population is changed in one stage; when the population is full, its oldest or its worst
 * member leaves. Random search is the baseline. Pure: every draw comes from the stream of the candidate's
 * number, so that a run can be continued and repeated.
 */
import { Streams } from "../../../shared/random/streams.js";
import type { SearchSpace } from "./search-space.js";

export interface SearchSettings {
  readonly strategy: "evolution" | "random";
  /** Members of the population at most. */
  readonly population: number;
  /** Members of which the best is changed. */
  readonly sample: number;
  /** The member that leaves a full population. */
  readonly drop: "oldest" | "worst";
  readonly seed: string;
}

/** A candidate that was trained. */
export interface Trained {
  readonly candidate: number;
  readonly choices: readonly number[];
  /** Higher is better; null: it could not be trained, and never is a parent. */
  readonly quality: number | null;
}

export interface Population {
  /** The oldest first. */
  readonly members: readonly Trained[];
  /** Numbers of the candidates that left, in the order in which they did. */
  readonly leavers: readonly number[];
}

/** @param trained in the order in which they were finished */
export function populationAfter(
  trained: readonly Trained[],
  { population, drop }: Pick<SearchSettings, "population" | "drop">,
): Population {
  const members: Trained[] = [];
  const left: number[] = [];
  for (const each of trained) {
    members.push(each);
    if (members.length <= population) continue;
    const leaving = drop === "oldest" ? 0 : indexOfWorst(members);
    left.push(...members.splice(leaving, 1).map(({ candidate }) => candidate));
  }
  return { members, leavers: left };
}

/** The oldest of the worst. */
function indexOfWorst(members: readonly Trained[]): number {
  let worst = 0;
  for (const [index, { quality }] of members.entries())
    if ((quality ?? -Infinity) < (members[worst]?.quality ?? -Infinity)) worst = index;
  return worst;
}

export interface Proposal {
  readonly choices: readonly number[];
  /** The candidate that was changed; absent for a random one. */
  readonly parent?: number;
}

/** The next candidate. The first ones, as many as the population has places, are random. */
export function propose(
  candidate: number,
  trained: readonly Trained[],
  { space, settings }: { readonly space: SearchSpace; readonly settings: SearchSettings },
): Proposal {
  const stream = new Streams(settings.seed, candidate).stream("search");
  const { stages } = space;
  const random = (): Proposal => ({ choices: stages.map(({ options }) => stream.integer(options.length)) });
  if (settings.strategy === "random" || candidate < settings.population) return random();
  const able = populationAfter(trained, settings).members.filter(({ quality }) => quality !== null);
  if (able.length === 0) return random();
  const sample = [...stream.permutation(able.length)]
    .slice(0, settings.sample)
    .map((index) => able[index] as Trained);
  const best = sample.reduce((a, b) => ((b.quality as number) > (a.quality as number) ? b : a));
  const changeable = stages.flatMap(({ options }, stage) => (options.length > 1 ? [stage] : []));
  const stage = changeable[stream.integer(Math.max(1, changeable.length))];
  if (stage === undefined) return { choices: best.choices, parent: best.candidate };
  const before = best.choices[stage] as number;
  const drawn = stream.integer((stages[stage]?.options.length ?? 2) - 1);
  const after = drawn < before ? drawn : drawn + 1;
  return {
    choices: best.choices.map((choice, each) => (each === stage ? after : choice)),
    parent: best.candidate,
  };
}
