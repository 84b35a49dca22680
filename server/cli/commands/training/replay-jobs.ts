/** `stemma replay list|show|cancel`: the replays that a server runs one after the other. */
import { formatDuration, formatTime } from "../../../../shared/cli/output.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { ReplayJob } from "../../../interface/api/models/replay-schemas.js";
import { listed, plain } from "../../plain-command.js";
import { describeReplay } from "../../replay-text.js";
import { nameOf } from "../../version-text.js";

const list = plain("replays", {
  name: "list",
  about: "queued replays, claims of devices and recoveries of dropped models, and how the latest ended",
  print: (jobs) =>
    listed(jobs, {
      nameOf: (row) => row.versionId,
      columns: [
        { title: "MODEL", value: titleOf },
        { title: "STATE", value: (row) => row.report?.verdict ?? row.state },
        { title: "PRIORITY", value: (row) => row.priority ?? "-", align: "right" },
        { title: "QUEUED", value: (row) => formatTime(row.queuedAtMs) },
        { title: "PROGRESS", value: progressOf },
      ],
      empty: "no replay is queued; queue one with: stemma replay run MODEL --detach",
    }),
});

const show = plain("replays", {
  name: "show",
  about: "how far the queued replay of a version is, or how it ended",
  takes: { model: "name, name:version, name:tag or id" },
  run: async ({ model }, { call }) => {
    const claim = (await call("replays")).find(
      ({ kind, versionId }) => kind === "claim" && model.length >= 8 && versionId.startsWith(model),
    );
    if (claim !== undefined) return claim;
    const version = await call("model", { model });
    const job = (await call("replays")).find(({ versionId }) => versionId === version.versionId);
    if (job !== undefined) return job;
    throw new StemmaError(
      "NOT_FOUND",
      `No replay of ${nameOf(version)} was queued. Queue one: stemma replay run ${nameOf(version)} --detach`,
    );
  },
  print: (job) => ({ names: [job.versionId], text: describeJob(job) }),
});

const cancel = plain("cancelReplay", {
  name: "cancel",
  about: "take a replay from the queue, or end it or a recovery where it runs; give up a claim that is lost",
  takes: { model: "name, name:version, name:tag or id" },
  print: (job) => ({ names: [job.versionId], text: describeCancelled(job) }),
});

/** A claim has no number yet, so its id names it. */
function titleOf(job: ReplayJob): string {
  return job.kind === "claim" ? `${job.versionId.slice(0, 12)} (${job.name})` : nameOf(job);
}

function describeCancelled(job: ReplayJob): string {
  if (job.state === "lost") return `gave up ${titleOf(job)}: nobody has its parameters any more`;
  if (job.kind === "recovery")
    return `cancelled the recovery of ${titleOf(job)}; who waited for it is told so (RECOVERY_CANCELLED)`;
  const cancelled = `cancelled the replay of ${titleOf(job)}`;
  return job.kind === "claim" ? `${cancelled}; ${job.device ?? ""} is asked for its parameters` : cancelled;
}

function describeJob(job: ReplayJob): string {
  if (job.report !== undefined) return describeReplay(job.report);
  const { by, queuedAtMs, priority } = job;
  const asked =
    priority === undefined
      ? `a recovery, asked for ${formatTime(queuedAtMs)}`
      : `queued ${formatTime(queuedAtMs)}, priority ${priority}${by === undefined ? "" : `, by ${by}`}`;
  return `${titleOf(job)} ${job.state}: ${progressOf(job) || "-"}\n  ${asked}`;
}

function progressOf(job: ReplayJob): string {
  const { progress, problem, report, state, because, device, waitsFor, predictedMs } = job;
  if (state === "lost")
    return `LOST: ${device ?? ""} is revoked or replaced, and it was not proved: ${because ?? ""}`;
  if (state === "wanted") return `${device ?? ""} is asked for its parameters; ${because ?? ""}`;
  if (problem !== undefined) return `${problem.code}: ${problem.message}`;
  if (report?.workMs !== undefined) return `trained again in ${formatDuration(report.workMs)}`;
  if (waitsFor !== undefined) return `waits for the recovery of ${nameOf(waitsFor)}`;
  const whole = predictedMs === undefined ? "" : `, about ${formatDuration(predictedMs)} in all`;
  if (progress === undefined) return predictedMs === undefined ? "" : `about ${formatDuration(predictedMs)}`;
  const { phase, epoch, epochs, iteration, iterations } = progress;
  if (epoch === undefined) return `${phase}${whole}`;
  const step = iteration === undefined ? "" : `, step ${iteration}${of(iterations)}`;
  return `${phase}: epoch ${epoch}${of(epochs)}${step}${whole}`;
}

function of(all: number | undefined): string {
  return all === undefined ? "" : ` of ${all}`;
}

export const commands = [list, show, cancel];
