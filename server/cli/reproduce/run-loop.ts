/**
 * The loop of Chen et al. (§3.2 to 3.6, Fig. 1; CH1): assets checked and trained twice, verified, profiled, remedied by
 * flags one after the other, recorded and replayed, until a pair is equal or no remedy is known.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { RunComparison } from "../../../shared/determinism/reproduce/criteria.js";
import type { Recording } from "../../../shared/determinism/recorder/recorded-run.js";
import {
  firstDivergence,
  summarize,
  type RandomSummary,
} from "../../../shared/determinism/reproduce/random-profile.js";
import {
  flagsFor,
  unstableOperationsOf,
  type UnstableOperations,
} from "../../../shared/determinism/reproduce/remedies.js";
import { isStemmaError } from "../../../shared/errors.js";
import { hashAssets, requireUnchanged, type Asset } from "./assets.js";
import { buildRecorder, type Recorder } from "../../../shared/determinism/recorder/build-recorder.js";
import { comparePair } from "./compare-sides.js";
import { moveFolder } from "./record.js";
import { requireRecordable } from "../../../shared/determinism/recorder/recordable.js";
import { runFolderOf, runRecorded, runTraining, type TrainingRun } from "./run-training.js";

/** A pair of runs under the same remedies. */
export interface LoopStep {
  readonly name: string;
  readonly comparison?: RunComparison;
  /** The place where the replay drew otherwise: such a pair is never equal. */
  readonly diverged?: string;
}

export interface LoopReport {
  readonly command: readonly string[];
  readonly assets: readonly Asset[];
  readonly runs: number;
  readonly steps: readonly LoopStep[];
  /** Name of the step whose pair was equal; null: none was. */
  readonly equalBy: string | null;
  /** Variables that were set in the last pair, in the order in which they were set. */
  readonly flags: Readonly<Record<string, string>>;
  readonly randomness: RandomSummary | null;
  /** The reason why nothing could be recorded; null: something was, or nothing had to be. */
  readonly notRecorded: string | null;
  /** Operations that may differ from run to run, of frameworks that were loaded. */
  readonly unstable: readonly UnstableOperations[];
}

export interface LoopRequest {
  readonly command: readonly string[];
  readonly assets: readonly string[];
  readonly timeoutSeconds: number;
  readonly workFolder: string;
}

interface LoopPorts {
  readonly signal: AbortSignal;
  readonly onRun: (run: number, what: string) => void;
  readonly onLine: (line: string) => void;
}

/** The folders of the last pair, below the work folder. */
export const pairNames = ["first", "second"] as const;

export interface LoopResult {
  readonly report: LoopReport;
  /** The recording of the last pair, where that was recorded and replayed. */
  readonly recording?: Recording;
}

/** @throws TRAINER_FAILED and others of a run; FILE_CHANGED: a run changed an asset; NOT_FOUND: nothing to compare */
export async function runLoop(request: LoopRequest, ports: LoopPorts): Promise<LoopResult> {
  const loop = new Loop(request, ports);
  await loop.begin();
  const names = (await loop.pair("bare")) ? [] : await loop.profile();
  for (const { name, value } of loop.isEqual ? [] : flagsFor(names)) {
    if (process.env[name] !== undefined) continue;
    loop.flags[name] = value;
    if (await loop.pair(`with ${name}=${value}`)) break;
  }
  const recording = loop.isEqual ? undefined : await loop.recordAndReplay();
  return { report: loop.report(names), ...(recording === undefined ? {} : { recording }) };
}

class Loop {
  readonly flags: Record<string, string> = {};
  readonly #steps: LoopStep[] = [];
  #assets: LoopReport["assets"] = [];
  #runs = 0;
  #equalBy: string | null = null;
  #recorder: Recorder | undefined;
  #notRecorded: string | null = null;
  #profiled: Recording | undefined;

  constructor(
    private readonly request: LoopRequest,
    private readonly ports: LoopPorts,
  ) {}

  get isEqual(): boolean {
    return this.#equalBy !== null;
  }

  async begin(): Promise<void> {
    this.#assets = await hashAssets(this.request.assets);
  }

  /** Runs once and puts what it left at `place`. The assets must be the same afterwards (CH §3.2; CH6). */
  async #run<Result>(
    what: string,
    place: string,
    run: (run: TrainingRun) => Promise<Result>,
  ): Promise<Result> {
    const { command, timeoutSeconds, workFolder } = this.request;
    this.ports.onRun(++this.#runs, what);
    const result = await run({ command, timeoutSeconds, workFolder, variables: this.flags });
    const target = join(workFolder, place);
    await rm(target, { recursive: true, force: true });
    await moveFolder(runFolderOf(workFolder), target);
    await requireUnchanged(this.#assets, `after run ${this.#runs}`);
    return result;
  }

  /** Trains twice. Returns whether the two are equal. */
  async pair(name: string): Promise<boolean> {
    for (const place of pairNames) await this.#run(name, place, (run) => runTraining(run, this.ports));
    return await this.#verify(name);
  }

  async #verify(name: string, diverged?: string): Promise<boolean> {
    const [a, b] = pairNames.map((place) => join(this.request.workFolder, place)) as [string, string];
    const comparison = await comparePair(a, b);
    this.#steps.push({ name, comparison, ...(diverged === undefined ? {} : { diverged }) });
    if (comparison.verdict === "equal" && diverged === undefined) this.#equalBy = name;
    return this.isEqual;
  }

  /** Records a run. Returns the names of its programs and libraries; none where nothing can be recorded here. */
  async profile(): Promise<readonly string[]> {
    try {
      await requireRecordable(this.request.command);
      this.#recorder = await buildRecorder(this.ports.signal);
      this.#profiled = await this.#record("profile");
    } catch (error) {
      if (!isStemmaError(error, "RECORDER_UNAVAILABLE") && !isStemmaError(error, "USAGE")) throw error;
      this.#recorder = undefined;
      this.#notRecorded = error.message;
      return [];
    }
    const { programs, libraries } = summarize(this.#profiled.records);
    return [...programs, ...libraries];
  }

  #record(what: string, given?: Buffer): Promise<Recording> {
    const recorder = this.#recorder as Recorder;
    const place = pairNames[given === undefined ? 0 : 1];
    return this.#run(what, place, (run) => runRecorded(run, recorder, given, this.ports));
  }

  async recordAndReplay(): Promise<Recording | undefined> {
    if (this.#recorder === undefined || this.#profiled === undefined) return undefined;
    const name = "recorded and replayed";
    // The profile is the recording where no flag was set since.
    const isFresh = Object.keys(this.flags).length === 0;
    const recording = isFresh ? this.#profiled : await this.#record("recording");
    const replayed = await this.#record("replay", recording.bytes);
    await this.#verify(name, firstDivergence(recording.records, replayed.records));
    return recording;
  }

  report(names: readonly string[]): LoopReport {
    return {
      command: this.request.command,
      assets: this.#assets,
      runs: this.#runs,
      steps: this.#steps,
      equalBy: this.#equalBy,
      flags: this.flags,
      randomness: this.#profiled === undefined ? null : summarize(this.#profiled.records),
      notRecorded: this.#notRecorded,
      unstable: unstableOperationsOf(names),
    };
  }
}
