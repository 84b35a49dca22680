/**
 * Finds the version that each line of each device ran at a moment (MM12), from `activated` facts alone. The
 * answer is `unknown` where clock errors or missing reports leave it open. Pure.
 *
 * An activation happened within an interval: device clock ± error, and not after the server received it. Two
 * activations of a line are certainly in order when their sessions differ, when their intervals do not touch,
 * or when arrival and device clock agree within a session. A certain order narrows the intervals. A version
 * is the answer when no other can have been the last one activated. The server's clock is the reference time.
 */
import { formatDuration } from "../../../../shared/cli/output.js";
import { defined } from "../../../../shared/defined.js";
import type { FleetMoment } from "../answers/device-answers.js";
import {
  activationInterval,
  lineKey,
  orderByNumber,
  type ActivationState,
  type DeviceState,
} from "./device-state.js";
import type { FleetState } from "./state.js";

/** The answers for every line of every device that was enrolled at `atMs`, sorted by device and line. */
export function fleetAsOf(state: FleetState, atMs: number, nowMs: number): readonly FleetMoment[] {
  const moments: FleetMoment[] = [];
  for (const device of [...state.devices.values()].sort((a, b) => compareText(a.device, b.device))) {
    if (device.generations.every(({ enrolledAtMs }) => enrolledAtMs > atMs)) continue;
    const lines = new Set([...device.lines, ...device.lastActivation.keys()]);
    for (const line of [...lines].sort(compareText))
      moments.push(
        lineAsOf(
          { ...device, all: [...state.activations.of(lineKey(device.device, line))] },
          line,
          atMs,
          nowMs,
        ),
      );
  }
  return moments;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function lineAsOf(
  { device, generations, all }: DeviceState & { readonly all: readonly ActivationState[] },
  line: string,
  atMs: number,
  nowMs: number,
): FleetMoment {
  const unknown = (why: string, uncertainMs?: number | null): FleetMoment => ({
    device,
    line,
    versionId: "unknown",
    why,
    ...defined({ uncertainMs }),
  });
  if (atMs > nowMs) return unknown("this moment is in the future");
  // Reports of an earlier generation are another machine's history.
  const enrolled = generations.findLast(({ enrolledAtMs }) => enrolledAtMs <= atMs);
  const history = all.filter(({ generation }) => generation === enrolled?.generation);
  if (history.length === 0)
    return unknown(
      all.length === 0
        ? "no activation was ever reported"
        : `no activation was reported by generation ${enrolled?.generation ?? 0} of the device, which was enrolled before this moment`,
    );
  const spans = narrowIntervals(relevantHistory(history, atMs));
  const candidates = spans.filter(
    (span) =>
      span.from <= atMs && !spans.some((other) => other.until <= atMs && isCertainlyBefore(span, other)),
  );
  if (candidates.length === 0) return unknown("the first reported activation is later");
  const versions = new Set(candidates.map(({ activation }) => activation.versionId));
  const certain = candidates.filter((span) => span.until <= atMs);
  const widest = candidates.reduce((most, span) => Math.max(most, span.until - span.from), 0);
  const uncertainMs = Number.isFinite(widest) ? widest : null;
  if (certain.length === 0)
    return unknown(
      `the first activation cannot be placed before or after this moment (${describe(uncertainMs)})`,
      uncertainMs,
    );
  if (versions.size > 1)
    return unknown(
      `${versions.size} versions were activated too close to this moment to tell which one ran (${describe(uncertainMs)})`,
      uncertainMs,
    );
  const first = certain.reduce((earliest, span) => (span.until < earliest.until ? span : earliest));
  const { activation } = first;
  const sinceMs = Number.isFinite(first.from)
    ? Math.max(first.from, Math.min(activation.deviceAtMs, first.until))
    : first.until;
  return {
    device,
    line,
    versionId: activation.versionId,
    why: "activation reported by the device",
    sinceMs,
    uncertainMs: activation.deviceClockErrorMs,
  };
}

/** A history up to this length is compared completely; of a longer one, only the relevant part is. */
const maxComparedActivations = 500;

/**
 * The part of a long history that matters at the time `atMs`. Leaves out activations that are certainly
 * before one that had certainly happened by then. Comparing fewer activations can make the answer less
 * certain, but never different.
 */
function relevantHistory(history: readonly ActivationState[], atMs: number): readonly ActivationState[] {
  if (history.length <= maxComparedActivations) return history;
  let latest = -Infinity;
  let session = -Infinity;
  for (const activation of history) {
    const { from, until } = activationInterval(activation);
    if (until > atMs) continue;
    latest = Math.max(latest, from);
    session = Math.max(session, activation.session);
  }
  const near = history.filter(
    (activation) => activation.session >= session && activationInterval(activation).until >= latest,
  );
  return near.length <= maxComparedActivations
    ? near
    : near.filter((activation) => activationInterval(activation).from <= atMs);
}

function describe(uncertainMs: number | null): string {
  return uncertainMs === null
    ? "the device's clock error is unknown"
    : `clock uncertainty ${formatDuration(uncertainMs)}`;
}

interface ActivationInterval {
  readonly activation: ActivationState;
  readonly from: number;
  readonly until: number;
}

/** Narrows each interval by the activations that are certainly before and after it. */
function narrowIntervals(history: readonly ActivationState[]): readonly ActivationInterval[] {
  const spans = history.map((activation) => ({ activation, ...activationInterval(activation) }));
  return spans.map((span) => {
    let { from, until } = span;
    for (const other of spans) {
      if (other === span) continue;
      if (isCertainlyBefore(other, span)) from = Math.max(from, other.from);
      else if (isCertainlyBefore(span, other)) until = Math.min(until, other.until);
    }
    return { activation: span.activation, from: Math.min(from, until), until };
  });
}

function isCertainlyBefore(a: ActivationInterval, b: ActivationInterval): boolean {
  if (a.activation.session !== b.activation.session) return a.activation.session < b.activation.session;
  const order = orderByNumber(a.activation, b.activation);
  if (order !== 0) return order < 0;
  if (a.until < b.from) return true;
  if (b.until < a.from) return false;
  return a.activation.position < b.activation.position && a.activation.deviceAtMs <= b.activation.deviceAtMs;
}
