/** Defines the shapes of simulated devices' links, by name. Pure. */
import { StemmaError } from "../errors.js";

export interface LinkShape {
  readonly name: string;
  /** Bytes a second to the device; null: as many as this machine carries. */
  readonly downBytesPerSecond: number | null;
  readonly upBytesPerSecond: number | null;
  /** The latency of each direction. */
  readonly latencyMs: number;
  /** Share of the packets that are lost. TCP sends them again, so what follows waits. */
  readonly loss: number;
  /** The average number of breaks of the link in an hour; 0: none. */
  readonly breaksPerHour: number;
  /** Mean time without a network after a break. */
  readonly offlineMs: number;
}

/** Rates as they are seen on the road, below what an operator advertises. */
export const linkShapes: readonly LinkShape[] = [
  shape("none", [null, null], { latencyMs: 0, loss: 0, breaksPerHour: 0, offlineMs: 0 }),
  shape("wifi", [40, 20], { latencyMs: 5, loss: 0.0005, breaksPerHour: 1, offlineMs: 10_000 }),
  shape("lte", [12, 4], { latencyMs: 35, loss: 0.002, breaksPerHour: 4, offlineMs: 20_000 }),
  shape("3g", [2, 0.8], { latencyMs: 90, loss: 0.005, breaksPerHour: 8, offlineMs: 40_000 }),
  shape("edge", [0.2, 0.1], { latencyMs: 300, loss: 0.01, breaksPerHour: 15, offlineMs: 60_000 }),
];

function shape(
  name: string,
  [down, up]: readonly [number | null, number | null],
  rest: Omit<LinkShape, "name" | "downBytesPerSecond" | "upBytesPerSecond">,
): LinkShape {
  const bytes = (megabits: number | null): number | null => (megabits === null ? null : megabits * 125_000);
  return { name, downBytesPerSecond: bytes(down), upBytesPerSecond: bytes(up), ...rest };
}

/** A link, and how many devices of a hundred or so have it. */
export interface LinkShare {
  readonly shape: LinkShape;
  readonly weight: number;
}

/** Parses "wifi=30,lte=60,3g=10", or one name. @throws USAGE */
export function parseLinks(text: string): readonly LinkShare[] {
  return text.split(",").map((part) => {
    const [name = "", weight = "1"] = part.trim().split("=", 2);
    const found = linkShapes.find((each) => each.name === name);
    if (found === undefined || !/^\d{1,6}$/.test(weight) || Number(weight) === 0)
      throw new StemmaError(
        "USAGE",
        `"${part.trim().slice(0, 40)}" is not a link with its share. Write --links lte, or --links ` +
          `wifi=30,lte=60,3g=10; links are ${linkShapes.map((each) => each.name).join(", ")}.`,
      );
    return { shape: found, weight: Number(weight) };
  });
}

/** The link of each of `count` devices: shares as asked for, evenly mixed. */
export function assignLinks(shares: readonly LinkShare[], count: number): readonly LinkShape[] {
  const total = shares.reduce((sum, { weight }) => sum + weight, 0);
  const given = shares.map(() => 0);
  return Array.from({ length: count }, (_, index) => {
    const owed = shares.map(({ weight }, at) => ((index + 1) * weight) / total - (given[at] ?? 0));
    const most = owed.indexOf(Math.max(...owed));
    given[most] = (given[most] ?? 0) + 1;
    return (shares[most] as LinkShare).shape;
  });
}
