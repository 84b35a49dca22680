// Gradients of a two-dimensional convolution (NHWC, float32) beside the matrix products:
// the rows of the unrolled input, and the way back. Knows pointers and sizes only.
import { addRow } from "./columns";

/**
 * Packs positions [first, first + count) of the unrolled input into panels of four rows:
 * out[m/4][k][4] with m = (fh·FW + fw)·C + c, k the position (n·OH + oh)·OW + ow; what lies in the
 * padding is zero. Shapes: x [N, H, W, C]. Rows past FH·FW·C are zero.
 */
export function packUnrolled(
  x: usize, out: usize, first: i32, count: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const M = FH * FW * C;
  for (let m = 0; m < M; m += 4) {
    const sameOffset = m + 4 <= M && m / C == (m + 3) / C;
    for (let k = 0; k < count; k++) {
      const to = out + ((<usize>(m / 4) * <usize>count + <usize>k) << 4);
      if (sameOffset) {
        const at = unrolledAt(x, first + k, m, H, W, C, OH, OW, FW, sh, sw, top, left, dh, dl);
        v128.store(to, at == 0 ? f32x4.splat(0) : v128.load(at));
      } else {
        for (let i = 0; i < 4; i++) {
          const at = m + i < M ? unrolledAt(x, first + k, m + i, H, W, C, OH, OW, FW, sh, sw, top, left, dh, dl) : 0;
          store<f32>(to + (<usize>i << 2), at == 0 ? 0 : load<f32>(at));
        }
      }
    }
  }
}

/** Address of the unrolled input's element, 0 in the padding. */
@inline
function unrolledAt(x: usize, position: i32, m: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32): usize {
  const offset = m / C, c = m - offset * C, fh = offset / FW, fw = offset - fh * FW;
  const row = position / OW, ow = position - row * OW, n = row / OH, oh = row - n * OH;
  const ih = oh * sh + fh * dh - top, iw = ow * sw + fw * dl - left;
  if (<u32>ih >= <u32>H || <u32>iw >= <u32>W) return 0;
  return x + (<usize>((n * H + ih) * W + iw) * <usize>C + <usize>c << 2);
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
