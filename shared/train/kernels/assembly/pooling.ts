// Gradient of max pooling (NHWC, float32). The gradient of a window goes to its first maximum in row
// order; a NaN in a window wins it, so that it is not lost.

export function maxPoolGradient(
  x: usize, dy: usize, dx: usize, N: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  memory.fill(dx, 0, <usize>(N * H * W) * <usize>C << 2);
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let ow = 0; ow < OW; ow++) for (let c = 0; c < C; c++) {
    let best: f32 = 0, at: usize = 0, found = false;
    for (let fh = 0; fh < FH; fh++) {
      const ih = oh * sh + fh * dh - top;
      if (<u32>ih >= <u32>H) continue;
      for (let fw = 0; fw < FW; fw++) {
        const iw = ow * sw + fw * dl - left;
        if (<u32>iw >= <u32>W) continue;
        const offset = <usize>((n * H + ih) * W + iw) * <usize>C + <usize>c << 2;
        const value = load<f32>(x + offset);
        if (!found || value > best || (value != value && best == best)) { best = value; at = offset; found = true; }
      }
    }
    if (!found) continue;
    const target = dx + at;
    store<f32>(target, load<f32>(target) + load<f32>(dy + (<usize>((n * OH + oh) * OW + ow) * <usize>C + <usize>c << 2)));
  }
}
