/** The figures that a training measured, by their names. Pure. */
import type { Measurement } from "../../../shared/train/training.js";

interface MeasuredValue {
  readonly iteration: number;
  readonly value: number;
}

/** A measurement of one figure; null: it was not finite. */
export interface MeasuredPoint {
  readonly iteration: number;
  readonly value: number | null;
}

export interface MetricCourse {
  readonly name: string;
  /** Times that it was measured, the times when it was not finite included. */
  readonly points: number;
  readonly last: MeasuredPoint;
  /** The least finite value; undefined: it never was finite. */
  readonly least: MeasuredValue | undefined;
  readonly most: MeasuredValue | undefined;
}

/** The members of a measurement as a person reads them. */
const knownMembers = ["loss", "validation", "learningRate"] as const;
const shownNames: ReadonlyMap<string, string> = new Map([
  ["validation", "validation loss"],
  ["learningRate", "learning rate"],
]);

/**
 * A member is null where the log has none of it, and where it was not finite; then it is among `metrics` too
 * (measurements-of-logs.ts).
 */
export function pointsOf(
  measurements: readonly Measurement[],
): ReadonlyMap<string, readonly MeasuredPoint[]> {
  const found = new Map<string, MeasuredPoint[]>();
  const put = (name: string, iteration: number, value: number | null): void => {
    const shown = shownNames.get(name) ?? name;
    const points = found.get(shown) ?? [];
    points.push({ iteration, value });
    found.set(shown, points);
  };
  for (const { iteration, metrics = {}, ...members } of measurements) {
    for (const name of knownMembers) {
      const value: number | null | undefined = members[name];
      if (value != null) put(name, iteration, value);
    }
    for (const [name, value] of Object.entries(metrics)) put(name, iteration, value);
  }
  return found;
}

export function coursesOf(measurements: readonly Measurement[]): readonly MetricCourse[] {
  const found = pointsOf(measurements);
  return [...found].flatMap(([name, points]) => {
    const finite = points.filter((point): point is MeasuredValue => point.value !== null);
    const last = points.at(-1);
    if (last === undefined) return [];
    return [{ name, points: points.length, last, least: extreme(finite, 1), most: extreme(finite, -1) }];
  });
}

function extreme(points: readonly MeasuredValue[], sign: 1 | -1): MeasuredValue | undefined {
  return points.reduce<MeasuredValue | undefined>(
    (best, point) => (best === undefined || sign * point.value < sign * best.value ? point : best),
    undefined,
  );
}

/** Six digits: logs of 32-bit numbers have more that say nothing. */
export function figure(value: number | null): string {
  return value === null ? "not finite" : String(Number(value.toPrecision(6)));
}

/** "0.5 at 20 (least 0.4 at 10, most 2 at 0)": the last value, and the extremes. */
export function courseText({ last, least, most }: MetricCourse): string {
  const at = (point: MetricCourse["last"]): string => `${figure(point.value)} at ${point.iteration}`;
  return least === undefined || most === undefined
    ? at(last)
    : `${at(last)} (least ${at(least)}, most ${at(most)})`;
}
