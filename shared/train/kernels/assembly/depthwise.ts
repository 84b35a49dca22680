// Gradients of a depthwise convolution (NHWC, float32, dilation allowed). x [N, H, W, C],
// filter [FH, FW, C, M], dy [N, OH, OW, C·M]. Fixed order: images, output rows, columns, offsets.

export function depthwiseFilterGradient(
  x: usize, dy: usize, dw: usize, N: i32, H: i32, W: i32, C: i32, M: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const CM = C * M, rowBytes = <usize>CM << 2;
  memory.fill(dw, 0, <usize>(FH * FW) * rowBytes);
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let fh = 0; fh < FH; fh++) {
    const ih = oh * sh + fh * dh - top;
    if (<u32>ih >= <u32>H) continue;
    for (let fw = 0; fw < FW; fw++) {
      const w = dw + <usize>(fh * FW + fw) * rowBytes;
      const shift = fw * dl - left;
      let first = 0, last = OW;
      while (first < OW && first * sw + shift < 0) first++;
      while (last > first && (last - 1) * sw + shift >= W) last--;
      const xRow = x + (<usize>((n * H + ih) * W + first * sw + shift) * <usize>C << 2);
      const yRow = dy + <usize>((n * OH + oh) * OW + first) * rowBytes;
      const count = last - first;
      if (M == 1) filterRow(xRow, yRow, w, count, <usize>(sw * C) << 2, C);
      else filterRowMultiplied(xRow, yRow, w, count, <usize>(sw * C) << 2, C, M);
    }
  }
}

/** w[c] += Σ x·dy along one row of outputs, the sum of a row formed first. */
@inline
function filterRow(x: usize, dy: usize, w: usize, count: i32, xStep: usize, C: i32): void {
  const yStep = <usize>C << 2;
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

function filterRowMultiplied(x: usize, dy: usize, w: usize, count: i32, xStep: usize, C: i32, M: i32): void {
  const yStep = <usize>(C * M) << 2;
  for (let c = 0; c < C; c++) for (let m = 0; m < M; m++) {
    let p = x + (<usize>c << 2), q = dy + (<usize>(c * M + m) << 2), s: f32 = 0;
    for (let i = 0; i < count; i++) { s += load<f32>(p) * load<f32>(q); p += xStep; q += yStep; }
    const at = w + (<usize>(c * M + m) << 2);
    store<f32>(at, load<f32>(at) + s);
  }
}

export function depthwiseInputGradient(
  dx: usize, dy: usize, w: usize, N: i32, H: i32, W: i32, C: i32, M: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const CM = C * M, rowBytes = <usize>CM << 2;
  memory.fill(dx, 0, <usize>(N * H * W) * <usize>C << 2);
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let ow = 0; ow < OW; ow++) {
    const y = dy + <usize>((n * OH + oh) * OW + ow) * rowBytes;
    for (let fh = 0; fh < FH; fh++) {
      const ih = oh * sh + fh * dh - top;
      if (<u32>ih >= <u32>H) continue;
      for (let fw = 0; fw < FW; fw++) {
        const iw = ow * sw + fw * dl - left;
        if (<u32>iw >= <u32>W) continue;
        inputPoint(dx + (<usize>((n * H + ih) * W + iw) * <usize>C << 2), w + <usize>(fh * FW + fw) * rowBytes, y, C, M);
      }
    }
  }
}

@inline
function inputPoint(dx: usize, w: usize, dy: usize, C: i32, M: i32): void {
  let c = 0, p = dx, q = w, y = dy;
  if (M == 1) for (; c + 4 <= C; c += 4) {
    v128.store(p, f32x4.add(v128.load(p), f32x4.mul(v128.load(q), v128.load(y))));
    p += 16; q += 16; y += 16;
  }
  for (; c < C; c++) {
    let s = load<f32>(p);
    for (let m = 0; m < M; m++) { s += load<f32>(q) * load<f32>(y); q += 4; y += 4; }
    store<f32>(p, s);
    p += 4;
  }
}
