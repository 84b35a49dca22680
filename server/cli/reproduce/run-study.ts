/** Runs the pairs of a study that are not complete yet, one pair of each setup in turn (CH §4.1). */
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { buildRecorder, type Recorder } from "../../../shared/determinism/recorder/build-recorder.js";
import { requireRecordable } from "../../../shared/determinism/recorder/recordable.js";
import type { Recording } from "../../../shared/determinism/recorder/recorded-run.js";
import { firstDivergence } from "../../../shared/determinism/reproduce/random-profile.js";
import { setups, type Setup, type StudyPair } from "../../../shared/determinism/reproduce/study.js";
import { hashAssets, requireUnchanged } from "./assets.js";
import { comparePair } from "./compare-sides.js";
import { moveFolder, withWork } from "./record.js";
import { runFolderOf, runRecorded, runTraining, type TrainingRun } from "./run-training.js";
import { openStudy, readPair, writePair, type StudyPlan } from "./study-folder.js";

export interface StudyRequest {
  /** The study's folder. */
  readonly folder: string;
  readonly command: readonly string[];
  readonly setups: readonly Setup[];
  readonly pairs: number;
  /** One for each pair, from the first again where they are fewer. */
  readonly seeds: readonly number[];
  /** Variables of the setups with a patch. */
  readonly patch: Readonly<Record<string, string>>;
  readonly assets: readonly string[];
  readonly timeoutSeconds: number;
}

export interface StudyPorts {
  readonly signal: AbortSignal;
  readonly onRun: (what: string) => void;
}

/** The variable that a program takes its seed from; empty in setups without one. */
export const seedVariable = "STEMMA_SEED";

/**
 * Runs what is left. A pair that was killed is run again, both of its runs.
 * @returns all pairs that were asked for
 * @throws what a run throws: a failed run ends the study, and the pairs before it stay; USAGE, RECORDER_UNAVAILABLE
 */
export async function runStudy(request: StudyRequest, ports: StudyPorts): Promise<readonly StudyPair[]> {
  const { folder, command, seeds, patch } = request;
  const assets = await hashAssets(request.assets);
  const plan = { format: 1 as const, command: [...command], folder: process.cwd(), patch, seeds: [...seeds] };
  let recorder: Recorder | undefined;
  if (request.setups.some((setup) => setups[setup].isRecorded)) {
    await requireRecordable(command);
    recorder = await buildRecorder(ports.signal);
  }
  await openStudy(folder, { ...plan, assets: assets.map((each) => ({ ...each })) } satisfies StudyPlan);
  const pairs: StudyPair[] = [];
  for (let pair = 1; pair <= request.pairs; pair++)
    for (const setup of request.setups) {
      const found = await readPair(folder, setup, pair);
      const made =
        found ??
        (await withWork(undefined, async (workFolder) => {
          const runs = new PairRuns({ ...request, workFolder, setup, pair, recorder }, ports);
          const result = await runs.run();
          await requireUnchanged(assets, `after pair ${pair} of ${setup}`);
          return result;
        }));
      if (found === undefined) await writePair(folder, made);
      pairs.push(made);
    }
  return pairs;
}

interface PairRequest extends StudyRequest {
  readonly workFolder: string;
  readonly setup: Setup;
  readonly pair: number;
  /** The recorder; undefined where no setup records. */
  readonly recorder: Recorder | undefined;
}

class PairRuns {
  readonly #seed: number | undefined;

  constructor(
    private readonly request: PairRequest,
    private readonly ports: StudyPorts,
  ) {
    const { setup, pair, seeds } = request;
    this.#seed = setups[setup].isSeeded ? seeds[(pair - 1) % seeds.length] : undefined;
  }

  async run(): Promise<StudyPair> {
    const { setup, pair, recorder } = this.request;
    const isRecorded = setups[setup].isRecorded && recorder !== undefined;
    const once = (run: TrainingRun, given?: Buffer): Promise<Recording | undefined> =>
      isRecorded
        ? runRecorded(run, recorder, given, this.#ports)
        : runTraining(run, this.#ports).then(() => undefined);
    const first = await this.#timed("first", (run) => once(run));
    const second = await this.#timed("second", (run) => once(run, first.result?.bytes));
    const diverged =
      first.result && second.result && firstDivergence(first.result.records, second.result.records);
    const { verdict, findings } = await comparePair(this.#folderOf("first"), this.#folderOf("second"));
    const model = await stat(join(this.#folderOf("first"), "model.safetensors")).catch(() => undefined);
    return {
      setup,
      pair,
      ...(this.#seed === undefined ? {} : { seed: this.#seed }),
      seconds: [first.seconds, second.seconds],
      ...(first.result === undefined ? {} : { profileBytes: first.result.bytes.length }),
      ...(model === undefined ? {} : { modelBytes: model.size }),
      ...(diverged === undefined ? {} : { diverged }),
      verdict: verdict as StudyPair["verdict"],
      findings: findings.map(({ criterion, verdict: each, difference }) => ({
        criterion,
        verdict: each,
        ...(difference === undefined || !Number.isFinite(difference) ? {} : { difference }),
      })),
    };
  }

  get #ports(): { readonly signal: AbortSignal; readonly onLine: (line: string) => void } {
    return { signal: this.ports.signal, onLine: () => undefined };
  }

  #folderOf(name: "first" | "second"): string {
    return join(this.request.workFolder, name);
  }

  async #timed<Result>(
    name: "first" | "second",
    run: (run: TrainingRun) => Promise<Result>,
  ): Promise<{ readonly result: Result; readonly seconds: number }> {
    const { command, timeoutSeconds, workFolder, setup, pair, pairs } = this.request;
    this.ports.onRun(`pair ${pair} of ${pairs}, ${setup}, ${name} run`);
    const startedAt = performance.now();
    const result = await run({ command, timeoutSeconds, workFolder, variables: this.#variables() });
    const seconds = (performance.now() - startedAt) / 1000;
    await rm(this.#folderOf(name), { recursive: true, force: true });
    await moveFolder(runFolderOf(workFolder), this.#folderOf(name));
    return { result, seconds };
  }

  #variables(): Readonly<Record<string, string>> {
    const { setup, patch } = this.request;
    const seed = this.#seed;
    return {
      [seedVariable]: seed === undefined ? "" : String(seed),
      ...(seed === undefined ? {} : { PYTHONHASHSEED: String(seed) }),
      ...(setups[setup].isPatched ? patch : {}),
    };
  }
}
