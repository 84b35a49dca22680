/** Decides which sample segments are deleted when a line has too many bytes or too old ones. Pure. */

export interface SegmentInfo {
  readonly name: string;
  readonly bytes: number;
  readonly firstIndex: number;
  /** One past the index of the last sample. */
  readonly endIndex: number;
  readonly newestMs: number;
}
/** Samples that are needed to repeat a training. */
export interface Pin {
  readonly from: number;
  readonly to: number;
}

export interface Retention {
  readonly drop: readonly string[];
  /** Bytes that stay. */
  readonly bytes: number;
}

/**
 * Drops the oldest segments first until the limits hold, but never the newest (it is being written) and never
 * one that contains a pinned sample. What stays may therefore exceed `maxBytes`: the caller then refuses new
 * samples instead of dropping pinned ones.
 */
export function planRetention(
  segments: readonly SegmentInfo[],
  pins: readonly Pin[],
  limits: { readonly maxBytes: number; readonly maxAgeMs: number | null },
  nowMs: number,
): Retention {
  const inOrder = [...segments].sort((a, b) => a.firstIndex - b.firstIndex);
  let bytes = inOrder.reduce((sum, segment) => sum + segment.bytes, 0);
  const drop: string[] = [];
  for (const segment of inOrder.slice(0, -1)) {
    const pinned = pins.some((pin) => pin.from < segment.endIndex && segment.firstIndex < pin.to);
    const tooOld = limits.maxAgeMs !== null && nowMs - segment.newestMs > limits.maxAgeMs;
    if (pinned || !(tooOld || bytes > limits.maxBytes)) continue;
    drop.push(segment.name);
    bytes -= segment.bytes;
  }
  return { drop, bytes };
}
