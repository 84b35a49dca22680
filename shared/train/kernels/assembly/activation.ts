// Clipping activations and their gradients, one pass each, float32. All of them keep a NaN: the forward pass
// by WebAssembly's min and max, the gradient wherever the input is NaN.

/** y = min(max(x, low), high). */
export function clip(x: usize, y: usize, count: i32, low: f32, high: f32): void {
  const l = f32x4.splat(low), h = f32x4.splat(high);
  let i = 0, p = x, q = y;
  for (; i + 4 <= count; i += 4) { v128.store(q, f32x4.min(f32x4.max(v128.load(p), l), h)); p += 16; q += 16; }
  for (; i < count; i++) { store<f32>(q, min<f32>(max<f32>(load<f32>(p), low), high)); p += 4; q += 4; }
}

/** Gradient of relu: dx = dy where x > 0, else dy·0; NaN where x is NaN. */
export function reluGradient(x: usize, dy: usize, dx: usize, count: i32): void {
  rampGradient(x, dy, dx, count, Infinity);
}

/** Gradient of relu6: dx = dy where 0 < x ≤ 6, else dy·0; NaN where x is NaN. */
export function relu6Gradient(x: usize, dy: usize, dx: usize, count: i32): void {
  rampGradient(x, dy, dx, count, 6);
}

@inline
function rampGradient(x: usize, dy: usize, dx: usize, count: i32, top: f32): void {
  const zero = f32x4.splat(0), one = f32x4.splat(1), high = f32x4.splat(top);
  let i = 0, p = x, q = dy, r = dx;
  for (; i + 4 <= count; i += 4) {
    const v = v128.load(p);
    const factor = v128.or(v128.and(v128.and(f32x4.gt(v, zero), f32x4.le(v, high)), one), f32x4.ne(v, v));
    v128.store(r, f32x4.mul(v128.load(q), factor));
    p += 16; q += 16; r += 16;
  }
  for (; i < count; i++) {
    const v = load<f32>(p);
    store<f32>(r, load<f32>(q) * (v != v ? v : v > 0 && v <= top ? <f32>1 : <f32>0));
    p += 4; q += 4; r += 4;
  }
}

/** Gradient of clip: dx = dy where low ≤ x ≤ high, else 0; NaN where x is NaN. */
export function clipGradient(x: usize, dy: usize, dx: usize, count: i32, low: f32, high: f32): void {
  const l = f32x4.splat(low), h = f32x4.splat(high);
  let i = 0, p = x, q = dy, r = dx;
  for (; i + 4 <= count; i += 4) {
    const v = v128.load(p);
    const inside = v128.and(f32x4.ge(v, l), f32x4.le(v, h));
    v128.store(r, v128.or(v128.and(v128.load(q), inside), f32x4.ne(v, v)));
    p += 16; q += 16; r += 16;
  }
  for (; i < count; i++) {
    const v = load<f32>(p);
    store<f32>(r, v != v ? v : v >= low && v <= high ? load<f32>(q) : 0);
    p += 4; q += 4; r += 4;
  }
}
