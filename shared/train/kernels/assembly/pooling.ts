// Pooling, and the gradient of max pooling (NHWC, float32), four channels at a time. A NaN in a window is kept.
// Parameters: sh, sw strides; top, left padding; dh, dl dilation down and to the right.

/** The maximum of the window inside the image. */
export function maxPool(
  x: usize, y: usize, N: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const bytes = <usize>C << 2;
  let out = y;
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let ow = 0; ow < OW; ow++) {
    for (let c: usize = 0; c < bytes; c += 16) {
      const whole = c + 16 <= bytes;
      let best = f32x4.splat(-Infinity);
      for (let fh = 0; fh < FH; fh++) {
        const ih = oh * sh + fh * dh - top;
        if (<u32>ih >= <u32>H) continue;
        for (let fw = 0; fw < FW; fw++) {
          const iw = ow * sw + fw * dl - left;
          if (<u32>iw >= <u32>W) continue;
          const p = x + <usize>((n * H + ih) * W + iw) * bytes + c;
          best = f32x4.max(best, whole ? v128.load(p) : partOf(p, bytes - c));
        }
      }
      if (whole) v128.store(out + c, best); else putPart(out + c, best, bytes - c);
    }
    out += bytes;
  }
}

/** The mean of the window inside the image, summed in row order. */
export function averagePool(
  x: usize, y: usize, N: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const bytes = <usize>C << 2;
  let out = y;
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let ow = 0; ow < OW; ow++) {
    for (let c: usize = 0; c < bytes; c += 16) {
      const whole = c + 16 <= bytes;
      let sum = f32x4.splat(0), count: f32 = 0;
      for (let fh = 0; fh < FH; fh++) {
        const ih = oh * sh + fh * dh - top;
        if (<u32>ih >= <u32>H) continue;
        for (let fw = 0; fw < FW; fw++) {
          const iw = ow * sw + fw * dl - left;
          if (<u32>iw >= <u32>W) continue;
          const p = x + <usize>((n * H + ih) * W + iw) * bytes + c;
          sum = f32x4.add(sum, whole ? v128.load(p) : partOf(p, bytes - c));
          count += 1;
        }
      }
      const mean = f32x4.div(sum, f32x4.splat(count));
      if (whole) v128.store(out + c, mean); else putPart(out + c, mean, bytes - c);
    }
    out += bytes;
  }
}

/** Loads one to three floats without reading beyond them. */
function partOf(p: usize, bytes: usize): v128 {
  let v = v128.load32_zero(p);
  if (bytes > 4) v = v128.load_lane<f32>(p, v, 1, 4);
  if (bytes > 8) v = v128.load_lane<f32>(p, v, 2, 8);
  return v;
}

function putPart(p: usize, v: v128, bytes: usize): void {
  v128.store_lane<f32>(p, v, 0);
  if (bytes > 4) v128.store_lane<f32>(p, v, 1, 4);
  if (bytes > 8) v128.store_lane<f32>(p, v, 2, 8);
}

/** The gradient of a window goes to its first maximum in row order. */
export function maxPoolGradient(
  x: usize, dy: usize, dx: usize, N: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32, FH: i32, FW: i32, sh: i32, sw: i32, top: i32, left: i32, dh: i32, dl: i32,
): void {
  const bytes = <usize>C << 2;
  memory.fill(dx, 0, <usize>(N * H * W) * bytes);
  let g = dy;
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) for (let ow = 0; ow < OW; ow++) {
    for (let c: usize = 0; c < bytes; c += 16) {
      const whole = c + 16 <= bytes;
      let best = f32x4.splat(0), at = i32x4.splat(-1);
      for (let fh = 0; fh < FH; fh++) {
        const ih = oh * sh + fh * dh - top;
        if (<u32>ih >= <u32>H) continue;
        for (let fw = 0; fw < FW; fw++) {
          const iw = ow * sw + fw * dl - left;
          if (<u32>iw >= <u32>W) continue;
          const place = (n * H + ih) * W + iw, p = x + <usize>place * bytes + c;
          const v = whole ? v128.load(p) : partOf(p, bytes - c);
          // A value wins when it is the first one, larger than the best one, or the first NaN.
          const isNaN = v128.andnot(f32x4.ne(v, v), f32x4.ne(best, best));
          const wins = v128.or(v128.or(i32x4.lt_s(at, i32x4.splat(0)), f32x4.gt(v, best)), isNaN);
          best = v128.bitselect(v, best, wins);
          at = v128.bitselect(i32x4.splat(place), at, wins);
        }
      }
      give(dx + c, g + c, bytes, i32x4.extract_lane(at, 0));
      if (whole || bytes - c > 4) give(dx + c + 4, g + c + 4, bytes, i32x4.extract_lane(at, 1));
      if (whole || bytes - c > 8) give(dx + c + 8, g + c + 8, bytes, i32x4.extract_lane(at, 2));
      if (whole) give(dx + c + 12, g + c + 12, bytes, i32x4.extract_lane(at, 3));
    }
    g += bytes;
  }
}

@inline
function give(dx: usize, g: usize, bytes: usize, place: i32): void {
  if (place < 0) return;
  const target = dx + <usize>place * bytes;
  store<f32>(target, load<f32>(target) + load<f32>(g));
}
