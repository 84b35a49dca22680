// Convolves for evaluation, with the batch normalisation that follows folded in. The filter is scaled
// beforehand, and a shift and a clip follow each tile of the result while it is in the cache.
import { convolveRows } from "./convolution";
import { depthwise } from "./depthwise";
import { BLOCK, matMulRows, ROWS } from "./matmul";

/** shift = beta + (bias − mean)·factor; the pointers beta = 0 and bias = 0 stand for zeros. */
export function foldedShift(bias: usize, mean: usize, factor: usize, beta: usize, shift: usize, C: i32): void {
  for (let c: usize = 0; c < <usize>C << 2; c += 4) {
    const distance = (bias == 0 ? <f32>0 : load<f32>(bias + c)) - load<f32>(mean + c);
    store<f32>(shift + c, (beta == 0 ? <f32>0 : load<f32>(beta + c)) + distance * load<f32>(factor + c));
  }
}

/** y[r][c] = min(max(y[r][c] + shift[c], low), high), in place; keeps a NaN. */
@inline
function shiftRows(y: usize, shift: usize, rows: i32, C: i32, low: f32, high: f32): void {
  const l = f32x4.splat(low), h = f32x4.splat(high);
  let p = y;
  for (let r = 0; r < rows; r++) {
    let c = 0, s = shift;
    for (; c + 4 <= C; c += 4) {
      v128.store(p, f32x4.min(f32x4.max(f32x4.add(v128.load(p), v128.load(s)), l), h));
      p += 16; s += 16;
    }
    for (; c < C; c++) {
      store<f32>(p, min<f32>(max<f32>(load<f32>(p) + load<f32>(s), low), high));
      p += 4; s += 4;
    }
  }
}

/** Multiplies as matMulRows with rows of `N` floats, then shifts and clips. */
export function matMulRowsShifted(a: usize, lda: i32, panels: usize, c: usize, M: i32, N: i32, K: i32, shift: usize, low: f32, high: f32): void {
  for (let m = 0; m < M; m += ROWS) {
    const rows = min(ROWS, M - m), out = c + (<usize>m * <usize>N << 2);
    matMulRows(a + (<usize>m * <usize>lda << 2), lda, panels, out, N, rows, N, K);
    shiftRows(out, shift, rows, N, low, high);
  }
}

/** Convolves as convolveRows, then shifts and clips. */
export function convolveRowsShifted(
  scratch: usize, x: usize, panels: usize, y: usize, first: i32, count: i32, shift: usize, low: f32, high: f32, O: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const last = first + count;
  for (let p = first; p < last; p += BLOCK) {
    const rows = min(BLOCK, last - p);
    convolveRows(scratch, x, panels, y, p, rows, O, H, W, C, OH, OW, FH, FW, sh, sw, top, left, dh, dl);
    shiftRows(y + (<usize>p * <usize>O << 2), shift, rows, O, low, high);
  }
}

/** Convolves as depthwise, then shifts and clips, row by row. */
export function depthwiseShifted(
  taps: usize, x: usize, y: usize, w: usize, shift: usize, low: f32, high: f32, N: i32, H: i32, W: i32, C: i32, M: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const image = <usize>(H * W) * <usize>C << 2, row = <usize>(OW * C * M) << 2;
  let out = y;
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) {
    depthwise(taps, x + <usize>n * image, out, w, 1, H, W, C, M, 1, OW, FH, FW, sh, sw, top - oh * sh, left, dh, dl);
    shiftRows(out, shift, OW, C * M, low, high);
    out += row;
  }
}
