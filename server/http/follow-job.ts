/**
 * Starts a job behind the remote door and follows it to its end: tells its progress, stops it when the asker
 * does. Knows no kind of job.
 */
import { StemmaError } from "../../shared/errors.js";
import type { Job } from "./jobs.js";
import { type Connection, sendForJson } from "./request.js";

export interface FollowedJob<Progress> {
  /** Route that starts it, and the one below which jobs are found. */
  readonly start: string;
  readonly jobs: string;
  readonly json: object;
  readonly pollMs: number;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** @throws what ended the job */
export async function followJob<Progress, Report>(
  connection: Connection,
  { start, jobs, json, pollMs, onProgress, signal }: FollowedJob<Progress>,
): Promise<Report> {
  let job = await sendForJson<Job<Progress, Report>>(connection, { method: "POST", path: start, json });
  const path = `${jobs}/${encodeURIComponent(job.job)}`;
  let seen = "";
  while (job.state === "running") {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, pollMs);
      function done(): void {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      }
      signal?.addEventListener("abort", done, { once: true });
    });
    job = await sendForJson<Job<Progress, Report>>(
      connection,
      signal?.aborted === true ? { method: "DELETE", path } : { path },
    );
    const now = JSON.stringify(job.progress);
    if (job.progress !== null && now !== seen) {
      seen = now;
      onProgress?.(job.progress);
    }
  }
  if (job.report !== null) return job.report;
  if (job.error !== null) throw new StemmaError(job.error.code, job.error.message, { ...job.error.details });
  throw new StemmaError("INTERNAL", `The job ${job.job} ended without a report and without an error.`);
}
