// One step of an optimiser on one variable, float32, in one pass. The order of operations is the one
// of kernels/optimizer-step.ts; it may not change, because a replay must repeat every rounding. Square root and
// division are correctly rounded in WebAssembly. Outputs may be the inputs' own memory.

/** Loads the last 1 to 3 elements lane by lane, so that they are computed like full vectors. */
@inline
function part(p: usize, count: i32): v128 {
  let v = f32x4.splat(0);
  v = f32x4.replace_lane(v, 0, load<f32>(p));
  if (count > 1) v = f32x4.replace_lane(v, 1, load<f32>(p, 4));
  if (count > 2) v = f32x4.replace_lane(v, 2, load<f32>(p, 8));
  return v;
}
@inline
function get(p: usize, count: i32): v128 { return count >= 4 ? v128.load(p) : part(p, count); }
@inline
function set(p: usize, v: v128, count: i32): void {
  if (count >= 4) { v128.store(p, v); return; }
  store<f32>(p, f32x4.extract_lane(v, 0));
  if (count > 1) store<f32>(p, f32x4.extract_lane(v, 1), 4);
  if (count > 2) store<f32>(p, f32x4.extract_lane(v, 2), 8);
}

/** w' = w − g·rate */
export function sgdStep(w: usize, g: usize, w2: usize, count: i32, rate: f32): void {
  const r = f32x4.splat(rate);
  for (let i = 0; i < count; i += 4) {
    const at = <usize>i << 2, n = count - i;
    set(w2 + at, f32x4.sub(get(w + at, n), f32x4.mul(get(g + at, n), r)), n);
  }
}

/** a' = a·momentum + g; w' = w − a'·rate, or with Nesterov w − (g + a'·momentum)·rate */
export function momentumStep(w: usize, g: usize, a: usize, w2: usize, a2: usize, count: i32, rate: f32, momentum: f32, nesterov: i32): void {
  const r = f32x4.splat(rate), m = f32x4.splat(momentum);
  for (let i = 0; i < count; i += 4) {
    const at = <usize>i << 2, n = count - i, gradient = get(g + at, n);
    const next = f32x4.add(f32x4.mul(get(a + at, n), m), gradient);
    const step = nesterov ? f32x4.add(gradient, f32x4.mul(next, m)) : next;
    set(w2 + at, f32x4.sub(get(w + at, n), f32x4.mul(step, r)), n);
    set(a2 + at, next, n);
  }
}

/** s' = s + g²; w' = w − (g·rate) / √(s' + ε) */
export function adagradStep(w: usize, g: usize, s: usize, w2: usize, s2: usize, count: i32, rate: f32, epsilon: f32): void {
  const r = f32x4.splat(rate), e = f32x4.splat(epsilon);
  for (let i = 0; i < count; i += 4) {
    const at = <usize>i << 2, n = count - i, gradient = get(g + at, n);
    const next = f32x4.add(get(s + at, n), f32x4.mul(gradient, gradient));
    set(w2 + at, f32x4.sub(get(w + at, n), f32x4.div(f32x4.mul(gradient, r), f32x4.sqrt(f32x4.add(next, e)))), n);
    set(s2 + at, next, n);
  }
}

/** s' = s·decay + g²·(1 − decay); m' = m·momentum + (g·rate) / √(s' + ε); w' = w − m' */
export function rmsPropStep(w: usize, g: usize, s: usize, m: usize, w2: usize, s2: usize, m2: usize, count: i32, rate: f32, decay: f32, rest: f32, momentum: f32, epsilon: f32): void {
  const r = f32x4.splat(rate), d = f32x4.splat(decay), o = f32x4.splat(rest), mo = f32x4.splat(momentum), e = f32x4.splat(epsilon);
  for (let i = 0; i < count; i += 4) {
    const at = <usize>i << 2, n = count - i, gradient = get(g + at, n);
    const square = f32x4.add(f32x4.mul(get(s + at, n), d), f32x4.mul(f32x4.mul(gradient, gradient), o));
    const moment = f32x4.add(f32x4.mul(get(m + at, n), mo), f32x4.div(f32x4.mul(gradient, r), f32x4.sqrt(f32x4.add(square, e))));
    set(w2 + at, f32x4.sub(get(w + at, n), moment), n);
    set(s2 + at, square, n);
    set(m2 + at, moment, n);
  }
}

/** Steps as rmsPropStep, centred: a' = a·decay + g·(1 − decay); the root is of (s' − a'²) + ε */
export function rmsPropCentredStep(w: usize, g: usize, s: usize, m: usize, a: usize, w2: usize, s2: usize, m2: usize, a2: usize, count: i32, rate: f32, decay: f32, rest: f32, momentum: f32, epsilon: f32): void {
  const r = f32x4.splat(rate), d = f32x4.splat(decay), o = f32x4.splat(rest), mo = f32x4.splat(momentum), e = f32x4.splat(epsilon);
  for (let i = 0; i < count; i += 4) {
    const at = <usize>i << 2, n = count - i, gradient = get(g + at, n);
    const square = f32x4.add(f32x4.mul(get(s + at, n), d), f32x4.mul(f32x4.mul(gradient, gradient), o));
    const average = f32x4.add(f32x4.mul(get(a + at, n), d), f32x4.mul(gradient, o));
    const root = f32x4.sqrt(f32x4.add(f32x4.sub(square, f32x4.mul(average, average)), e));
    const moment = f32x4.add(f32x4.mul(get(m + at, n), mo), f32x4.div(f32x4.mul(gradient, r), root));
    set(w2 + at, f32x4.sub(get(w + at, n), moment), n);
    set(s2 + at, square, n);
    set(m2 + at, moment, n);
    set(a2 + at, average, n);
  }
}

/** m' = m·β1 + g·(1 − β1); v' = v·β2 + g²·(1 − β2); w' = w − (m' / (√v' / root + ε))·rate */
export function adamStep(w: usize, g: usize, m: usize, v: usize, w2: usize, m2: usize, v2: usize, count: i32, rate: f32, beta1: f32, rest1: f32, beta2: f32, rest2: f32, root: f32, epsilon: f32): void {
  const r = f32x4.splat(rate), b1 = f32x4.splat(beta1), o1 = f32x4.splat(rest1), b2 = f32x4.splat(beta2), o2 = f32x4.splat(rest2);
  const c = f32x4.splat(root), e = f32x4.splat(epsilon);
  for (let i = 0; i < count; i += 4) {
    const at = <usize>i << 2, n = count - i, gradient = get(g + at, n);
    const first = f32x4.add(f32x4.mul(get(m + at, n), b1), f32x4.mul(gradient, o1));
    const second = f32x4.add(f32x4.mul(get(v + at, n), b2), f32x4.mul(f32x4.mul(gradient, gradient), o2));
    const step = f32x4.div(first, f32x4.add(f32x4.div(f32x4.sqrt(second), c), e));
    set(w2 + at, f32x4.sub(get(w + at, n), f32x4.mul(step, r)), n);
    set(m2 + at, first, n);
    set(v2 + at, second, n);
  }
}
