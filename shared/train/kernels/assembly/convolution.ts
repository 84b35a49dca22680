// Convolutions as matrix products (NHWC, float32): unrolling the input, adding unrolled gradients up again, and
// the bias. Takes pointers and sizes only.
import { addRow } from "./columns";
import { BLOCK, matMulPacked, matMulRows, packPanels, packRows } from "./matmul";

/**
 * Unrolls positions [first, first + count): out[k][m] with m = (fh·FW + fw)·C + c, k the position
 * (n·OH + oh)·OW + ow; elements in the padding are zero. Shapes: x [N, H, W, C], out [count, FH·FW·C].
 */
export function unrollRows(
  x: usize, out: usize, first: i32, count: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const pixel = <usize>C << 2, row = <usize>W * pixel, span = <usize>FW * pixel;
  let ow = first % OW, oh = (first / OW) % OH, n = first / (OW * OH), to = out;
  for (let k = 0; k < count; k++) {
    const iw = ow * sw - left, whole = dl == 1 && iw >= 0 && iw + FW <= W;
    for (let fh = 0; fh < FH; fh++) {
      const ih = oh * sh + fh * dh - top;
      if (<u32>ih >= <u32>H) memory.fill(to, 0, span);
      else if (whole) copy(x + <usize>(n * H + ih) * row + <usize>iw * pixel, to, span);
      else for (let fw = 0; fw < FW; fw++) {
        const at = iw + fw * dl;
        if (<u32>at >= <u32>W) memory.fill(to + <usize>fw * pixel, 0, pixel);
        else copy(x + <usize>(n * H + ih) * row + <usize>at * pixel, to + <usize>fw * pixel, pixel);
      }
      to += span;
    }
    if (++ow == OW) { ow = 0; if (++oh == OH) { oh = 0; n++; } }
  }
}

/** Copies floats. Most runs are short, so an inlined loop is faster than a call of memory.copy. */
@inline
function copy(from: usize, to: usize, bytes: usize): void {
  let i: usize = 0;
  for (; i + 16 <= bytes; i += 16) v128.store(to + i, v128.load(from + i));
  for (; i < bytes; i += 4) store<i32>(to + i, load<i32>(from + i));
}

/** y[r][c] += bias[c], in place. */
export function addBias(y: usize, bias: usize, rows: i32, C: i32): void {
  let p = y;
  for (let r = 0; r < rows; r++, p += <usize>C << 2) addRow(bias, p, C);
}

/**
 * Adds unrolled gradients of positions [first, first + count), columns [count, FH·FW·C], to
 * dx [N, H, W, C], in the order of positions and offsets.
 */
export function scatterUnrolled(
  columns: usize, dx: usize, first: i32, count: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  let from = columns;
  const bytes = <usize>C << 2;
  for (let k = first; k < first + count; k++) {
    const row = k / OW, ow = k - row * OW, n = row / OH, oh = row - n * OH;
    for (let fh = 0; fh < FH; fh++) {
      const ih = oh * sh + fh * dh - top;
      for (let fw = 0; fw < FW; fw++) {
        const iw = ow * sw + fw * dl - left;
        if (<u32>ih < <u32>H && <u32>iw < <u32>W) addRow(from, dx + <usize>((n * H + ih) * W + iw) * bytes, C);
        from += bytes;
      }
    }
  }
}

/** Fills with zero bytes. */
export function zero(p: usize, bytes: i32): void { memory.fill(p, 0, bytes); }

/**
 * Output positions [first, first + count) of y [N·OH·OW, O]: unrolled inputs times the filter's panels (packPanels
 * of [FH·FW·C, O]), in blocks of BLOCK positions. `scratch` holds BLOCK·FH·FW·C floats.
 */
export function convolveRows(
  scratch: usize, x: usize, panels: usize, y: usize, first: i32, count: i32, O: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const K = FH * FW * C, last = first + count;
  for (let p = first; p < last; p += BLOCK) {
    const rows = min(BLOCK, last - p);
    unrollRows(x, scratch, p, rows, H, W, C, OH, OW, FH, FW, sh, sw, top, left, dh, dl);
    matMulRows(scratch, K, panels, y + (<usize>p * <usize>O << 2), O, rows, O, K);
  }
}

/**
 * Rows [m0, m0 + M) and columns [n0, n0 + N) of the filter's gradient dw [FH·FW·C, O]: the sum over all positions
 * of unrolled inputs times dy [positions, O]. m0 is a multiple of 4. `scratch` holds ceil(M/4)·4 + ceil(N/8)·8 +
 * FH·FW·C floats for each of BLOCK positions.
 */
export function convolutionFilterGradient(
  scratch: usize, x: usize, dy: usize, dw: usize, m0: i32, M: i32, n0: i32, N: i32, O: i32, positions: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const K = FH * FW * C;
  const panels = scratch + <usize>((M + 3) >> 2) * <usize>BLOCK * 16;
  const unrolled = panels + <usize>((N + 7) >> 3) * <usize>BLOCK * 32;
  const out = dw + (<usize>m0 * <usize>O + <usize>n0 << 2);
  for (let p = 0; p < positions; p += BLOCK) {
    const count = min(BLOCK, positions - p);
    unrollRows(x, unrolled, p, count, H, W, C, OH, OW, FH, FW, sh, sw, top, left, dh, dl);
    packRows(unrolled + (<usize>m0 << 2), scratch, count, M, K);
    packPanels(dy + (<usize>p * <usize>O + <usize>n0 << 2), panels, count, N, O, 1);
    matMulPacked(scratch, panels, out, O, M, N, count, p > 0);
  }
}

/**
 * Adds what output positions [first, first + count) of dy [N·OH·OW, O] give to the input's gradient dx [N, H, W, C];
 * `panels` as packPanels writes the transposed filter [O, FH·FW·C]. `scratch` holds BLOCK·FH·FW·C floats.
 */
export function convolutionInputGradient(
  scratch: usize, dy: usize, panels: usize, dx: usize, first: i32, count: i32, O: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const K = FH * FW * C, last = first + count;
  for (let p = first; p < last; p += BLOCK) {
    const rows = min(BLOCK, last - p);
    matMulRows(dy + (<usize>p * <usize>O << 2), O, panels, scratch, K, rows, K, O);
    scatterUnrolled(scratch, dx, p, rows, H, W, C, OH, OW, FH, FW, sh, sw, top, left, dh, dl);
  }
}
