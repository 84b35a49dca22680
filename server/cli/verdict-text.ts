/** Formats the verdict of a version's latest replay, its claim, and the end of its stored data, as lines for people. */
import { formatTime } from "../../shared/cli/output.js";
import { counted } from "../../shared/printable.js";
import { describeMissed } from "../learning/replay/choose-segments.js";
import type { SpotCheckReport } from "../interface/api/models/spot-check-schemas.js";
import type { ModelDescription } from "../interface/api/models/version-schemas.js";
import { describeBy } from "./version-text.js";

export function describeDataDropped({
  because,
  atMs,
  by,
}: NonNullable<ModelDescription["dataDropped"]>): string {
  const why = because === "" ? "" : `: ${because}`;
  return `dropped ${formatTime(atMs)}${describeBy(by)}${why}; it cannot be replayed again without them`;
}

export function describeReplay({
  verdict,
  grade,
  atMs,
  because,
  by,
  description,
}: NonNullable<ModelDescription["replayed"]>): string {
  const isOlder = verdict === "proved" && description === undefined;
  return (
    `${verdict} (${grade}) ${formatTime(atMs)}${describeBy(by)}: ${because}` +
    (isOlder
      ? " An earlier release did that: metric, losses and the description of the data were not compared. Replay it again."
      : "")
  );
}

/** The latest spot check, in words that never say proved. */
export function describeSpotCheck({
  outcome,
  segments,
  of,
  because,
}: Pick<SpotCheckReport, "outcome" | "segments" | "of" | "because">): string {
  if (outcome === "passed")
    return `spot-checked (${segments.length} of ${of}): ${because}. ${describeMissed(segments.length, of)}`;
  if (outcome === "refuted") return `refuted by a spot check: ${because}`;
  const what = `spot check of ${segments.length} of ${counted(of, "segment")}`;
  return outcome === "asked"
    ? `${what} waits for the device: ${because}`
    : `${what} not available: ${because}. No other segments are chosen until these are given`;
}

export function describeClaim({
  recordedAtMs,
  isProved,
  ended,
}: NonNullable<ModelDescription["claim"]>): string {
  const how = isProved
    ? "proved: the server made its parameters itself, the device did not send them"
    : ended === undefined
      ? "the device sent the parameters before it was replayed"
      : `${ended.verdict.toUpperCase()}, so the device sent the parameters: ${ended.because}`;
  return `reported without parameters ${formatTime(recordedAtMs)}; ${how}`;
}
