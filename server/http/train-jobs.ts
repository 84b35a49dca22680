/**
 * Trainings started over HTTP: they outlive the request, and whoever asks polls. A bounded table;
 * finished jobs make room for new ones. Knows the operations and nothing of HTTP.
 */
import { randomUUID } from "node:crypto";
import { StemmaError } from "../../shared/errors.js";
import type { Clock } from "../../shared/ports.js";
import type { ServerOperations, TrainProgress, TrainReport, TrainRequest } from "../operations/operations.js";
import { type ErrorBody, errorBodyOf } from "./error-body.js";

export interface TrainJob {
  readonly job: string;
  readonly fleet: string;
  readonly name: string;
  readonly state: "running" | "done" | "failed";
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
  readonly progress: TrainProgress | null;
  readonly report: TrainReport | null;
  readonly error: ErrorBody | null;
}

interface Running { job: TrainJob; readonly abort: AbortController; readonly ended: Promise<void> }

export interface TrainJobs {
  start(request: TrainRequest): TrainJob;
  /** @throws NOT_FOUND */
  get(fleet: string, job: string): TrainJob;
  list(fleet: string): readonly TrainJob[];
  /** Asks a job to stop; it ends as failed with TRAINING_STOPPED. */
  cancel(fleet: string, job: string): TrainJob;
  /** Stops all and waits for their ends. */
  close(): Promise<void>;
}

/** @param limits running jobs at a time, and jobs remembered in all */
export function trainJobs(operations: Pick<ServerOperations, "train">, clock: Pick<Clock, "now">, limits = { running: 2, kept: 100 }): TrainJobs {
  const jobs = new Map<string, Running>();
  const find = (fleet: string, id: string): Running => {
    const found = jobs.get(id);
    if (found === undefined || found.job.fleet !== fleet) throw new StemmaError("NOT_FOUND", `There is no training ${id} in the fleet ${fleet}; it may have ended before the server last started. Trainings that ended well are in \`stemma model list\`.`, { job: id });
    return found;
  };
  return {
    start(request) {
      const running = [...jobs.values()].filter(({ job }) => job.state === "running").length;
      if (running >= limits.running) throw new StemmaError("QUOTA_EXCEEDED", `${running} trainings run on this server already, which is its limit. Wait for one to end, or stop one.`, { running });
      for (const [id, { job }] of jobs) if (jobs.size >= limits.kept && job.state !== "running") jobs.delete(id);
      const abort = new AbortController();
      const id = randomUUID();
      const entry: { job: TrainJob; abort: AbortController; ended: Promise<void> } = {
        abort, ended: Promise.resolve(),
        job: { job: id, fleet: request.fleet, name: request.name, state: "running", startedAtMs: clock.now(), endedAtMs: null, progress: null, report: null, error: null },
      };
      entry.ended = operations.train(request, (progress) => { entry.job = { ...entry.job, progress }; }, abort.signal).then(
        (report) => { entry.job = { ...entry.job, state: "done", endedAtMs: clock.now(), report }; },
        (error: unknown) => { entry.job = { ...entry.job, state: "failed", endedAtMs: clock.now(), error: errorBodyOf(error) }; },
      );
      jobs.set(id, entry);
      return entry.job;
    },
    get: (fleet, id) => find(fleet, id).job,
    list: (fleet) => [...jobs.values()].map(({ job }) => job).filter((job) => job.fleet === fleet),
    cancel(fleet, id) { const found = find(fleet, id); found.abort.abort(); return found.job; },
    async close() {
      for (const { abort } of jobs.values()) abort.abort();
      await Promise.all([...jobs.values()].map(({ ended }) => ended));
    },
  };
}
