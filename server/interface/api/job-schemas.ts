/** Long jobs and errors as they are sent over HTTP. */
import * as z from "zod";
import type { ErrorCode } from "../../../shared/errors.js";

/** A typed error without its cause. */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}
export const errorBody = z
  .object({
    code: z.string().describe("A stable code, such as MODEL_NOT_FOUND"),
    message: z.string().describe("What happened, and what can be done"),
    details: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "Error" });

/** Work that was started over HTTP. */
export interface Job<Progress, Report> {
  readonly job: string;
  readonly fleet: string;
  readonly name: string;
  readonly state: "running" | "done" | "failed";
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
  readonly progress: Progress | null;
  readonly report: Report | null;
  readonly error: ErrorBody | null;
}
export function jobSchema<Progress extends z.ZodType, Report extends z.ZodType>(
  progress: Progress,
  report: Report,
) {
  return z.object({
    job: z.string().describe("Its id"),
    fleet: z.string(),
    name: z.string(),
    state: z.enum(["running", "done", "failed"]),
    startedAtMs: z.number(),
    endedAtMs: z.number().nullable(),
    progress: progress.nullable(),
    report: report.nullable().describe("Once it is done"),
    error: errorBody.nullable().describe("Once it has failed"),
  });
}
