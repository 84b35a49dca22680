// Depthwise convolution and its gradients (NHWC, float32, dilation allowed). x [N, H, W, C],
// filter [FH, FW, C, M], y and dy [N, OH, OW, C·M]. A pixel is the sum of its taps in the order of the
// filter's offsets. The filter's gradient adds images and their output rows, each row summed first.
// Parameters: sh, sw strides; top, left padding; dh, dl dilation down and to the right.

/**
 * dw = Σ over images, rows and pixels of x·dy, for the channels [first, first + count) of C; where M > 1, for all.
 */
export function depthwiseFilterGradient(
  x: usize, dy: usize, dw: usize, first: i32, count: i32, N: i32, H: i32, W: i32, C: i32, M: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const CM = C * M, rowBytes = <usize>CM << 2, at = <usize>first << 2;
  for (let tap = 0; tap < FH * FW; tap++) memory.fill(dw + <usize>tap * rowBytes + at, 0, <usize>(count * M) << 2);
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let fh = 0; fh < FH; fh++) {
    const ih = oh * sh + fh * dh - top;
    if (<u32>ih >= <u32>H) continue;
    for (let fw = 0; fw < FW; fw++) {
      const w = dw + <usize>(fh * FW + fw) * rowBytes;
      const shift = fw * dl - left;
      let start = 0, end = OW;
      while (start < OW && start * sw + shift < 0) start++;
      while (end > start && (end - 1) * sw + shift >= W) end--;
      const xRow = x + (<usize>((n * H + ih) * W + start * sw + shift) * <usize>C << 2);
      const yRow = dy + <usize>((n * OH + oh) * OW + start) * rowBytes;
      const pixels = end - start;
      if (M == 1) filterRow(xRow + at, yRow + at, w + at, pixels, <usize>(sw * C) << 2, rowBytes, count);
      else filterRowMultiplied(xRow, yRow, w, pixels, <usize>(sw * C) << 2, C, M);
    }
  }
}

/** w[c] += Σ x·dy along one row of outputs; the row's sum is computed first. */
@inline
function filterRow(x: usize, dy: usize, w: usize, count: i32, xStep: usize, yStep: usize, C: i32): void {
  let c = 0;
  for (; c + 8 <= C; c += 8) {
    const at = <usize>c << 2;
    let p = x + at, q = dy + at, s0 = f32x4.splat(0), s1 = s0;
    for (let i = 0; i < count; i++) {
      s0 = f32x4.add(s0, f32x4.mul(v128.load(p), v128.load(q)));
      s1 = f32x4.add(s1, f32x4.mul(v128.load(p, 16), v128.load(q, 16)));
      p += xStep; q += yStep;
    }
    v128.store(w + at, f32x4.add(v128.load(w + at), s0));
    v128.store(w + at, f32x4.add(v128.load(w + at, 16), s1), 16);
  }
  for (; c < C; c++) {
    const at = <usize>c << 2;
    let p = x + at, q = dy + at, s: f32 = 0;
    for (let i = 0; i < count; i++) { s += load<f32>(p) * load<f32>(q); p += xStep; q += yStep; }
    store<f32>(w + at, load<f32>(w + at) + s);
  }
}

/** Adds as filterRow for M > 1: w[c·M + m] += Σ x[c]·dy[c·M + m]. */
function filterRowMultiplied(x: usize, dy: usize, w: usize, count: i32, xStep: usize, C: i32, M: i32): void {
  const yStep = <usize>(C * M) << 2;
  for (let c = 0; c < C; c++) for (let m = 0; m < M; m++) {
    let p = x + (<usize>c << 2), q = dy + (<usize>(c * M + m) << 2), s: f32 = 0;
    for (let i = 0; i < count; i++) { s += load<f32>(p) * load<f32>(q); p += xStep; q += yStep; }
    const at = w + (<usize>(c * M + m) << 2);
    store<f32>(at, load<f32>(at) + s);
  }
}

/** The forward pass. `taps` (memory of the calling thread) holds FH·FW pairs of pointers: an input pixel and the filter's row for it. */
export function depthwise(
  taps: usize, x: usize, y: usize, w: usize, N: i32, H: i32, W: i32, C: i32, M: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const pixel = <usize>C << 2, row = <usize>(C * M) << 2;
  let out = y;
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let ow = 0; ow < OW; ow++) {
    let end = taps;
    for (let fh = 0; fh < FH; fh++) {
      const ih = oh * sh + fh * dh - top;
      if (<u32>ih >= <u32>H) continue;
      for (let fw = 0; fw < FW; fw++) {
        const iw = ow * sw + fw * dl - left;
        if (<u32>iw >= <u32>W) continue;
        store<usize>(end, x + <usize>((n * H + ih) * W + iw) * pixel);
        store<usize>(end, w + <usize>(fh * FW + fw) * row, 4);
        end += 8;
      }
    }
    if (M == 1) sumTaps(taps, end, out, pixel); else spreadTaps(taps, end, out, C, M);
    out += row;
  }
}

/** Sums for each input pixel the gradients of the outputs that read it; `taps` as in depthwise. */
export function depthwiseInputGradient(
  taps: usize, dx: usize, dy: usize, w: usize, N: i32, H: i32, W: i32, C: i32, M: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const pixel = <usize>C << 2, row = <usize>(C * M) << 2;
  let out = dx;
  for (let n = 0; n < N; n++) for (let ih = 0; ih < H; ih++) for (let iw = 0; iw < W; iw++) {
    let end = taps;
    for (let fh = 0; fh < FH; fh++) {
      const down = ih + top - fh * dh, oh = sh == 1 ? down : down / sh;
      if (down < 0 || oh >= OH || oh * sh != down) continue;
      for (let fw = 0; fw < FW; fw++) {
        const right = iw + left - fw * dl, ow = sw == 1 ? right : right / sw;
        if (right < 0 || ow >= OW || ow * sw != right) continue;
        store<usize>(end, dy + <usize>((n * OH + oh) * OW + ow) * row);
        store<usize>(end, w + <usize>(fh * FW + fw) * row, 4);
        end += 8;
      }
    }
    if (M == 1) sumTaps(taps, end, out, pixel); else gatherTaps(taps, end, out, C, M);
    out += pixel;
  }
}

/** out[c] = Σ a[c]·b[c] over the taps. */
@inline
function sumTaps(taps: usize, end: usize, out: usize, bytes: usize): void {
  let c: usize = 0;
  for (; c + 64 <= bytes; c += 64) {
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    for (let tap = taps; tap < end; tap += 8) {
      const a = load<usize>(tap) + c, b = load<usize>(tap, 4) + c;
      s0 = f32x4.add(s0, f32x4.mul(v128.load(a), v128.load(b)));
      s1 = f32x4.add(s1, f32x4.mul(v128.load(a, 16), v128.load(b, 16)));
      s2 = f32x4.add(s2, f32x4.mul(v128.load(a, 32), v128.load(b, 32)));
      s3 = f32x4.add(s3, f32x4.mul(v128.load(a, 48), v128.load(b, 48)));
    }
    v128.store(out + c, s0); v128.store(out + c, s1, 16); v128.store(out + c, s2, 32); v128.store(out + c, s3, 48);
  }
  for (; c + 16 <= bytes; c += 16) {
    let s = f32x4.splat(0);
    for (let tap = taps; tap < end; tap += 8) s = f32x4.add(s, f32x4.mul(v128.load(load<usize>(tap) + c), v128.load(load<usize>(tap, 4) + c)));
    v128.store(out + c, s);
  }
  for (; c < bytes; c += 4) {
    let s: f32 = 0;
    for (let tap = taps; tap < end; tap += 8) s += load<f32>(load<usize>(tap) + c) * load<f32>(load<usize>(tap, 4) + c);
    store<f32>(out + c, s);
  }
}

/** out[c·M + m] = Σ a[c]·b[c·M + m] */
function spreadTaps(taps: usize, end: usize, out: usize, C: i32, M: i32): void {
  for (let c = 0; c < C; c++) for (let m = 0; m < M; m++) {
    const at = <usize>(c * M + m) << 2;
    let s: f32 = 0;
    for (let tap = taps; tap < end; tap += 8) s += load<f32>(load<usize>(tap) + (<usize>c << 2)) * load<f32>(load<usize>(tap, 4) + at);
    store<f32>(out + at, s);
  }
}

/** out[c] = Σ a[c·M + m]·b[c·M + m] */
function gatherTaps(taps: usize, end: usize, out: usize, C: i32, M: i32): void {
  for (let c = 0; c < C; c++) {
    let s: f32 = 0;
    for (let tap = taps; tap < end; tap += 8) for (let m = 0; m < M; m++) {
      const at = <usize>(c * M + m) << 2;
      s += load<f32>(load<usize>(tap) + at) * load<f32>(load<usize>(tap, 4) + at);
    }
    store<f32>(out + (<usize>c << 2), s);
  }
}
