/** Defines the request and the report of a simulation. Types, and the times of saves. Pure. */
import type { LinkShare } from "../../../shared/simulation/link-shapes.js";
import type { SimulatedAnswers } from "../../../shared/simulation/simulation-messages.js";

export interface SimulationRequest {
  readonly devices: number;
  readonly fleet: string;
  readonly line: string;
  readonly profile: string;
  readonly links: readonly LinkShare[];
  readonly seed: number;
  /** Fine-tuned models that each device reports: the last one during the rollout, where there is one. */
  readonly saves: number;
  /** Share of a model's bytes that a fine-tune changes. */
  readonly changes: number;
  /** Share of the devices on whose data the new version is worse. */
  readonly worse: number;
  /** Milliseconds over which devices connect and report. */
  readonly spreadMs: number;
  readonly processes: number;
  /** The simulation ends after this. */
  readonly limitMs: number;
}

/** The rollout of a simulation on a server of its own. */
export interface SimulatedRollout {
  /** The connection to the server: over TLS with certificates, or with tokens over plain ports. */
  readonly tls: "own" | "none";
  readonly modelBytes: number;
  /** Share of the tensors that the new version has changed. */
  readonly updates: number;
  readonly waves: readonly string[];
  readonly atOnce: number;
}

export interface RolloutOutcome {
  readonly phase: string;
  readonly because: string;
  readonly devices: Readonly<Record<string, number>>;
  readonly plannedBytes: number;
  readonly plannedMs: number | null;
  readonly tookMs: number;
  /** The comparison over devices of which both are known. */
  readonly compared: {
    readonly devices: number;
    readonly plannedBytes: number;
    readonly actualBytes: number;
    /** Medians of |planned - actual| / actual. */
    readonly bytesError: number | null;
    readonly timeError: number | null;
  };
}

export interface SimulationSummary {
  readonly fleet: string;
  readonly devices: number;
  readonly connected: number;
  readonly wasStopped: boolean;
  readonly tookMs: number;
  readonly reports: {
    readonly saved: number;
    /** The number of recorded versions by the receipts that devices have; each includes those further on. */
    readonly recorded: number;
    readonly stored: number;
    readonly released: number;
    /** The server has no such version although the device has its receipt. */
    readonly lost: number;
    /** The number of versions without a receipt; the device still has them. */
    readonly waiting: number;
    /** Milliseconds from announcements to first receipts: in the middle, and of 99 in 100; null where there is none. */
    readonly recordedAfterMs: { readonly median: number; readonly p99: number } | null;
  };
  readonly bytesUp: number;
  readonly bytesDown: number;
  readonly breaks: number;
  readonly server: {
    readonly peakBytes: number | null;
  };
  /** Memory of the processes of the devices at the end. */
  readonly devicesBytes: number;
  /** Warnings and errors that agents logged. */
  readonly troubles: Readonly<Record<string, number>>;
  readonly examples: readonly string[];
  readonly rollout: RolloutOutcome | null;
}

const samples = 400;
const standardDeviation = 0.3;
/** Mean difference of the losses where the new version is better, and where it is worse. */
const better = -0.02;
const worse = 0.15;

/** Returns each device's answers: on `share` of them, evenly among the others, the version is worse. */
export function answersOf(share: number): (index: number) => SimulatedAnswers {
  return (index) => {
    const isWorse = Math.floor((index + 1) * share) > Math.floor(index * share);
    return { samples, standardDeviation, meanDifference: isWorse ? worse : better };
  };
}

/** The middle of these times, and the one that 99 in 100 do not exceed. */
export function spreadOf(timesMs: readonly number[]): SimulationSummary["reports"]["recordedAfterMs"] {
  const sorted = timesMs.toSorted((a, b) => a - b);
  const at = (share: number): number | undefined => sorted[Math.ceil(share * sorted.length) - 1];
  const [median, p99] = [at(0.5), at(0.99)];
  return median === undefined || p99 === undefined ? null : { median, p99 };
}

/** Times of `count` saves of each device, drawn evenly over the spread. */
export function saveTimes(
  names: readonly string[],
  count: number,
  spreadMs: number,
  draw: () => number,
): ReadonlyMap<string, readonly number[]> {
  return new Map(
    names.map((name) => [
      name,
      Array.from({ length: count }, () => Math.round(spreadMs * draw())).sort((a, b) => a - b),
    ]),
  );
}
