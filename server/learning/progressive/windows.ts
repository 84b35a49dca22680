/**
 * The windows of convolutions and pooling: for every output position, the input positions that it reads.
 * Windows are placed as in TensorFlow.js, where "same" pads what the strides leave over, the larger half at
 * the end. Uses integer arithmetic only.
 */
import { windowTooLarge } from "./progressive-errors.js";

export interface Windows {
  readonly outHeight: number;
  readonly outWidth: number;
  /** Output position p reads `taps[starts[p] … starts[p + 1])`. */
  readonly starts: Int32Array;
  /** Index of the position inside the window (row-major). */
  readonly taps: Int32Array;
  /** Index of the input position (row · width + column). */
  readonly positions: Int32Array;
}

export interface WindowForm {
  readonly size: readonly [number, number];
  readonly strides: readonly [number, number];
  readonly dilation: readonly [number, number];
  readonly padding: "same" | "valid";
}

/** One axis: the number of outputs, and the padding before the first input. */
function axisOf(
  extent: number,
  size: number,
  stride: number,
  dilation: number,
  padding: WindowForm["padding"],
): { readonly out: number; readonly before: number } {
  /** Extent of the dilated window. */
  const span = (size - 1) * dilation + 1;
  if (padding === "valid") return { out: Math.floor((extent - span) / stride) + 1, before: 0 };
  const out = Math.ceil(extent / stride);
  return { out, before: Math.floor(Math.max(0, (out - 1) * stride + span - extent) / 2) };
}

/** @throws ARCHITECTURE_INVALID where a window does not fit its input */
export function windowsOf(
  height: number,
  width: number,
  { size, strides, dilation, padding }: WindowForm,
): Windows {
  const rows = axisOf(height, size[0], strides[0], dilation[0], padding);
  const columns = axisOf(width, size[1], strides[1], dilation[1], padding);
  if (rows.out < 1 || columns.out < 1) throw windowTooLarge(size, height, width);
  const starts = new Int32Array(rows.out * columns.out + 1);
  const taps: number[] = [];
  const positions: number[] = [];
  for (let y = 0, p = 0; y < rows.out; y++) {
    for (let x = 0; x < columns.out; x++) {
      for (let dy = 0; dy < size[0]; dy++) {
        const row = y * strides[0] + dy * dilation[0] - rows.before;
        if (row < 0 || row >= height) continue;
        for (let dx = 0; dx < size[1]; dx++) {
          const column = x * strides[1] + dx * dilation[1] - columns.before;
          if (column < 0 || column >= width) continue;
          taps.push(dy * size[1] + dx);
          positions.push(row * width + column);
        }
      }
      starts[++p] = taps.length;
    }
  }
  return {
    outHeight: rows.out,
    outWidth: columns.out,
    starts,
    taps: Int32Array.from(taps),
    positions: Int32Array.from(positions),
  };
}

/** 1 × 1 windows: every position reads only itself, as in a dense layer over the last axis. */
export function pointWindows(count: number): Windows {
  return {
    outHeight: count,
    outWidth: 1,
    starts: Int32Array.from({ length: count + 1 }, (_, p) => p),
    taps: new Int32Array(count),
    positions: Int32Array.from({ length: count }, (_, p) => p),
  };
}

/** One pass of a layer over its windows. */
export interface WindowPass {
  /** Called for each input position that a window reads, in their order; `tap` is its index in the window. */
  readonly read: (window: number, position: number, tap: number) => void;
  /** Called before a window's reads, with their number. False: there are none to be done for this window. */
  readonly begin?: (window: number, reads: number) => boolean;
  readonly end?: (window: number, reads: number) => void;
}

/** The loop that all passes share. */
export function passWindows({ starts, taps, positions }: Windows, { begin, read, end }: WindowPass): void {
  for (let window = 0; window < starts.length - 1; window++) {
    const first = starts[window]!;
    const last = starts[window + 1]!;
    if (begin?.(window, last - first) === false) continue;
    for (let at = first; at < last; at++) read(window, positions[at]!, taps[at]!);
    end?.(window, last - first);
  }
}
