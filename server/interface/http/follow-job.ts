/**
 * Starts a job of any kind on a server and follows it to its end. It reports progress, and stops the job when
 * the caller's signal aborts.
 */
import { StemmaError } from "../../../shared/errors.js";
import { jobSchema, type Job } from "../api/job-schemas.js";
import type { InputOf, JobDefinition, ValueOf } from "../api/operation.js";
import type { JobOptions } from "../api/server-operations.js";
import { checkAnswer } from "./check-answer.js";
import { jobWithoutEnd } from "./http-errors.js";
import type { Connection, ServerRequest } from "./request.js";
import { fillPath, splitInput } from "./write-input.js";

export interface FollowedJob<Definition extends JobDefinition> extends JobOptions<
  ValueOf<Definition["progress"]>
> {
  readonly definition: Definition;
  readonly input: InputOf<Definition>;
  readonly pollMs: number;
}

/** @throws the error that ended the job */
export async function followJob<Definition extends JobDefinition>(
  connection: Connection,
  { definition, input, pollMs, onProgress, signal }: FollowedJob<Definition>,
): Promise<ValueOf<Definition["report"]>> {
  const schema = jobSchema(definition.progress, definition.report);
  type Progress = ValueOf<Definition["progress"]>;
  type Report = ValueOf<Definition["report"]>;
  const ask = async (request: ServerRequest): Promise<Job<Progress, Report>> =>
    checkAnswer(schema, await connection.sendForJson(request), connection.server) as Job<Progress, Report>;
  const { path, body } = splitInput(definition, input);
  let job = await ask({ method: "POST", path, json: body });
  const jobPath = `${fillPath(definition.jobsPath, input)}/${encodeURIComponent(job.job)}`;
  let reported = "";
  while (job.state === "running") {
    await pauseOrAbort(pollMs, signal);
    job = await ask(signal?.aborted === true ? { method: "DELETE", path: jobPath } : { path: jobPath });
    const progress = JSON.stringify(job.progress);
    if (job.progress !== null && progress !== reported) {
      reported = progress;
      onProgress?.(job.progress);
    }
  }
  if (job.report !== null) return job.report;
  if (job.error !== null) throw new StemmaError(job.error.code, job.error.message, { ...job.error.details });
  throw jobWithoutEnd(connection.server, job.job, job.name);
}

/** Resolves after the time, or when the signal aborts. */
function pauseOrAbort(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done, { once: true });
  });
}
