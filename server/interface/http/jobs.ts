/**
 * Long work that was started over HTTP: it outlives the request, and clients poll it. The table of jobs is
 * bounded: finished jobs are dropped when new ones start. Does not depend on HTTP or on the kind of work.
 */
import { randomUUID } from "node:crypto";
import { StemmaError } from "../../../shared/errors.js";
import type { Clock } from "../../../shared/ports.js";
import type { Job } from "../api/job-schemas.js";
import { errorBodyOf } from "./error-body.js";
import { noSuchJob, tooManyJobs } from "./http-errors.js";

export interface Jobs<Request, Progress, Report> {
  /** @throws QUOTA_EXCEEDED */
  start(request: Request): Job<Progress, Report>;
  /** @throws NOT_FOUND */
  get(fleet: string, job: string): Job<Progress, Report>;
  list(fleet: string): readonly Job<Progress, Report>[];
  /** Asks a job to stop. */
  cancel(fleet: string, job: string): Job<Progress, Report>;
  /** Stops all jobs and waits until they have ended. */
  close(): Promise<void>;
}

/** The parts that a job's work gets from its table. */
export interface RunOptions<Progress> {
  /** The job's id. */
  readonly job: string;
  readonly onProgress: (progress: Progress) => void;
  readonly signal: AbortSignal;
}

export interface JobKind<Request, Progress, Report> {
  /** The word in messages for a job of this kind, such as "training". */
  readonly noun: string;
  /** The advice on what to look at where a job is no longer known. */
  readonly hint: string;
  readonly run: (request: Request, options: RunOptions<Progress>) => Promise<Report>;
  readonly clock: Pick<Clock, "now">;
  /** Running jobs at a time, and jobs remembered in all. */
  readonly limits: { readonly running: number; readonly kept: number };
}

interface Entry<Progress, Report> {
  job: Job<Progress, Report>;
  readonly abort: AbortController;
  ended: Promise<void>;
}

type NamedRequest = { readonly fleet: string; readonly name: string };

function newEntry<Progress, Report>(
  { fleet, name }: NamedRequest,
  startedAtMs: number,
): Entry<Progress, Report> {
  return {
    abort: new AbortController(),
    ended: Promise.resolve(),
    job: {
      job: randomUUID(),
      fleet,
      name,
      state: "running",
      startedAtMs,
      endedAtMs: null,
      progress: null,
      report: null,
      error: null,
    },
  };
}

export function createJobs<Request extends NamedRequest, Progress, Report>({
  noun,
  hint,
  run,
  clock,
  limits,
}: JobKind<Request, Progress, Report>): Jobs<Request, Progress, Report> {
  const jobs = new Map<string, Entry<Progress, Report>>();
  const find = (fleet: string, id: string): Entry<Progress, Report> => {
    const found = jobs.get(id);
    if (found === undefined || found.job.fleet !== fleet) throw noSuchJob(fleet, noun, id, hint);
    return found;
  };
  return {
    start(request) {
      const running = [...jobs.values()].filter(({ job }) => job.state === "running").length;
      if (running >= limits.running) throw tooManyJobs(running, noun);
      for (const [id, { job }] of jobs)
        if (jobs.size >= limits.kept && job.state !== "running") jobs.delete(id);
      const entry = newEntry<Progress, Report>(request, clock.now());
      const id = entry.job.job;
      entry.ended = run(request, {
        job: id,
        onProgress: (progress) => {
          entry.job = { ...entry.job, progress };
        },
        signal: entry.abort.signal,
      }).then(
        (report) => {
          entry.job = { ...entry.job, state: "done", endedAtMs: clock.now(), report };
        },
        (error: unknown) => {
          entry.job = { ...entry.job, state: "failed", endedAtMs: clock.now(), error: errorBodyOf(error) };
        },
      );
      jobs.set(id, entry);
      return entry.job;
    },
    get: (fleet, id) => find(fleet, id).job,
    list: (fleet) => [...jobs.values()].map(({ job }) => job).filter((job) => job.fleet === fleet),
    cancel(fleet, id) {
      const found = find(fleet, id);
      found.abort.abort(new StemmaError("INTERRUPTED", `The ${noun} was asked to stop.`));
      return found.job;
    },
    async close() {
      for (const { abort } of jobs.values())
        abort.abort(new StemmaError("INTERRUPTED", `The ${noun} was stopped because the server stops.`));
      await Promise.all([...jobs.values()].map(({ ended }) => ended));
    },
  };
}
