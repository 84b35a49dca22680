/** Runs a training to a step in a process of its own, with the probe's bundle. Does not load TensorFlow.js. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defined } from "../../defined.js";
import { builtInEngineFolder, builtInProbeFolder, engineIdOfFolder } from "../../train/engine-folder.js";
import { runEngineProcess } from "../../train/engine-process.js";
import { stateAfterFile, type StateAfter, type StateAfterJob } from "./state-after-job.js";

export interface StateAfterOptions {
  /** A folder of the caller's own, which it removes. */
  readonly workFolder: string;
  readonly signal?: AbortSignal | undefined;
  /** Limit in MiB for the tensors' memory. Overrides the training's. */
  readonly memoryLimitMb?: number | undefined;
}

/**
 * @param request its paths are absolute
 * @returns undefined where the training ends before the step
 * @throws the child's typed error; BACKEND_UNAVAILABLE where a bundle is missing; TRAINING_STOPPED
 */
export async function stateAfterInChild(
  request: Omit<StateAfterJob, "engine" | "engineId">,
  { workFolder, signal, memoryLimitMb }: StateAfterOptions,
): Promise<StateAfter | undefined> {
  const folder = join(workFolder, "state-after");
  const [jobFolder, resultFolder] = [join(folder, "job"), join(folder, "result")];
  await rm(folder, { recursive: true, force: true });
  for (const each of [jobFolder, resultFolder]) await mkdir(each, { recursive: true });
  const engine = builtInEngineFolder();
  const { training } = request;
  const limits = {
    ...defined({ memoryLimitMb: memoryLimitMb ?? training.memoryLimitMb }),
    threads: training.threads ?? availableParallelism(),
  };
  const limited = { ...request, training: { ...training, ...limits } };
  const job: StateAfterJob = { ...limited, engine, engineId: await engineIdOfFolder(engine) };
  await writeFile(join(jobFolder, "job.json"), JSON.stringify(job));
  const script = join(builtInProbeFolder(), "probe.mjs");
  await runEngineProcess({ purpose: "probe", jobFolder, resultFolder, script }, { signal });
  const { state } = JSON.parse(await readFile(join(resultFolder, stateAfterFile), "utf8")) as {
    readonly state: StateAfter | null;
  };
  return state ?? undefined;
}
