// The gates of recurrent layers, one time step per call, float32. A step takes the sums over input and state and
// computes the new state and the values that the gradient needs. Exponentials are polynomials (Cephes), so every
// machine computes the same bits; a NaN stays a NaN.

@inline
function bits(x: i32): v128 { return i32x4.splat(x); }
@inline
function number(x: f32): v128 { return f32x4.splat(x); }

/** e^x for x ≤ 0. */
@inline
function exponential(x: v128): v128 {
  const clamped = f32x4.max(x, number(-87));
  const n = f32x4.nearest(f32x4.mul(clamped, number(1.44269504)));
  let r = f32x4.sub(clamped, f32x4.mul(n, number(0.693359375)));
  r = f32x4.sub(r, f32x4.mul(n, number(-2.12194440e-4)));
  let y = f32x4.add(f32x4.mul(number(1.9875691500e-4), r), number(1.3981999507e-3));
  y = f32x4.add(f32x4.mul(y, r), number(8.3334519073e-3));
  y = f32x4.add(f32x4.mul(y, r), number(4.1665795894e-2));
  y = f32x4.add(f32x4.mul(y, r), number(1.6666665459e-1));
  y = f32x4.add(f32x4.mul(y, r), number(5.0000001201e-1));
  y = f32x4.add(f32x4.add(f32x4.mul(y, f32x4.mul(r, r)), r), number(1));
  return f32x4.mul(y, i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(n), bits(127)), 23));
}

@inline
function tanh(x: v128): v128 {
  const z = f32x4.mul(x, x), size = f32x4.abs(x);
  let p = f32x4.add(f32x4.mul(number(-5.70498872745e-3), z), number(2.06390887954e-2));
  p = f32x4.add(f32x4.mul(p, z), number(-5.37397155531e-2));
  p = f32x4.add(f32x4.mul(p, z), number(1.33314422036e-1));
  p = f32x4.add(f32x4.mul(p, z), number(-3.33332819422e-1));
  const small = f32x4.add(f32x4.mul(f32x4.mul(p, z), x), x);
  const e = exponential(f32x4.mul(size, number(-2)));
  const large = f32x4.div(f32x4.sub(number(1), e), f32x4.add(number(1), e));
  return v128.bitselect(small, v128.bitselect(x, large, bits(0x80000000)), f32x4.lt(size, number(0.625)));
}

/** clip(0.2·x + 0.5, 0, 1) where `hard` is set, else the logistic function. */
@inline
function gate(x: v128, hard: i32): v128 {
  if (hard) return f32x4.min(f32x4.max(f32x4.add(number(0.5), f32x4.mul(number(0.2), x)), number(0)), number(1));
  const e = exponential(f32x4.neg(f32x4.abs(x)));
  return f32x4.div(v128.bitselect(e, number(1), f32x4.lt(x, number(0))), f32x4.add(number(1), e));
}

/** Derivative of a gate by its input, computed from the gate's value. */
@inline
function slope(s: v128, hard: i32): v128 {
  if (hard) return v128.and(number(0.2), v128.and(f32x4.gt(s, number(0)), f32x4.lt(s, number(1))));
  return f32x4.mul(s, f32x4.sub(number(1), s));
}

@inline
function get(p: usize, count: i32): v128 {
  if (count >= 4) return v128.load(p);
  let v = v128.load32_zero(p);
  if (count > 1) v = v128.load_lane<f32>(p, v, 1, 4);
  if (count > 2) v = v128.load_lane<f32>(p, v, 2, 8);
  return v;
}
@inline
function set(p: usize, v: v128, count: i32): void {
  if (count >= 4) { v128.store(p, v); return; }
  v128.store_lane<f32>(p, v, 0);
  if (count > 1) v128.store_lane<f32>(p, v, 1, 4);
  if (count > 2) v128.store_lane<f32>(p, v, 2, 8);
}
@inline
function sum(a: usize, b: usize, count: i32): v128 { return f32x4.add(get(a, count), get(b, count)); }

/**
 * LSTM, gates in the order i, f, c, o. Per sample: fromInput [4U] (rows inputStep bytes apart) and
 * fromState [4U] are summed; cell [U] is the one before. Writes gates [4U], cell2 [U],
 * its tanh [U] and h [U] (stateStep bytes apart).
 */
export function lstmStep(
  fromInput: usize, inputStep: usize, fromState: usize, cell: usize, gates: usize, cell2: usize, tanhs: usize, h: usize, stateStep: usize, B: i32, U: i32, hard: i32,
): void {
  const row = <usize>U << 2;
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, x = fromInput + at, s = fromState + at, g = gates + at;
      const i = gate(sum(x, s, n), hard), f = gate(sum(x + row, s + row, n), hard);
      const c = tanh(sum(x + 2 * row, s + 2 * row, n)), o = gate(sum(x + 3 * row, s + 3 * row, n), hard);
      const next = f32x4.add(f32x4.mul(f, get(cell + at, n)), f32x4.mul(i, c)), t = tanh(next);
      set(g, i, n); set(g + row, f, n); set(g + 2 * row, c, n); set(g + 3 * row, o, n);
      set(cell2 + at, next, n);
      set(tanhs + at, t, n);
      set(h + at, f32x4.mul(o, t), n);
    }
    fromInput += inputStep; fromState += 4 * row; cell += row; gates += 4 * row; cell2 += row; tanhs += row; h += stateStep;
  }
}

/**
 * Gradient of lstmStep. Takes dh [U] of this step's output (stateStep bytes apart), and dhNext and dc [U] of the
 * later step; writes dz [4U] (inputStep bytes apart) and dc for the step before.
 */
export function lstmStepGradient(
  dh: usize, stateStep: usize, dhNext: usize, dc: usize, gates: usize, cell: usize, tanhs: usize, dz: usize, inputStep: usize, B: i32, U: i32, hard: i32,
): void {
  const row = <usize>U << 2, one = number(1);
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, g = gates + at, z = dz + at;
      const i = get(g, n), f = get(g + row, n), c = get(g + 2 * row, n), o = get(g + 3 * row, n), t = get(tanhs + at, n);
      const dState = sum(dh + at, dhNext + at, n);
      const dCell = f32x4.add(get(dc + at, n), f32x4.mul(f32x4.mul(dState, o), f32x4.sub(one, f32x4.mul(t, t))));
      set(z, f32x4.mul(f32x4.mul(dCell, c), slope(i, hard)), n);
      set(z + row, f32x4.mul(f32x4.mul(dCell, get(cell + at, n)), slope(f, hard)), n);
      set(z + 2 * row, f32x4.mul(f32x4.mul(dCell, i), f32x4.sub(one, f32x4.mul(c, c))), n);
      set(z + 3 * row, f32x4.mul(f32x4.mul(dState, t), slope(o, hard)), n);
      set(dc + at, f32x4.mul(dCell, f), n);
    }
    dh += stateStep; dhNext += row; dc += row; gates += 4 * row; cell += row; tanhs += row; dz += inputStep;
  }
}

/**
 * GRU, gates in the order z, r, h. First half: takes fromInput [3U], fromState [2U] and h [U]; writes the gates z
 * and r (the first two of [3U]) and r·h [U].
 */
export function gruGates(fromInput: usize, inputStep: usize, fromState: usize, h: usize, stateStep: usize, gates: usize, reset: usize, B: i32, U: i32, hard: i32): void {
  const row = <usize>U << 2;
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, x = fromInput + at, s = fromState + at;
      const r = gate(sum(x + row, s + row, n), hard);
      set(gates + at, gate(sum(x, s, n), hard), n);
      set(gates + row + at, r, n);
      set(reset + at, f32x4.mul(r, get(h + at, n)), n);
    }
    fromInput += inputStep; fromState += 2 * row; h += stateStep; gates += 3 * row; reset += stateStep;
  }
}

/** Second half: writes the candidate tanh(fromInput + fromReset) as the third gate, and h2 = z·h + (1 − z)·candidate. */
export function gruStep(fromInput: usize, inputStep: usize, fromReset: usize, h: usize, h2: usize, stateStep: usize, gates: usize, B: i32, U: i32): void {
  const row = <usize>U << 2;
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u;
      const z = get(gates + at, n), c = tanh(sum(fromInput + 2 * row + at, fromReset + at, n));
      set(gates + 2 * row + at, c, n);
      set(h2 + at, f32x4.add(f32x4.mul(z, get(h + at, n)), f32x4.mul(f32x4.sub(number(1), z), c)), n);
    }
    fromInput += inputStep; fromReset += row; h += stateStep; h2 += stateStep; gates += 3 * row;
  }
}

/**
 * Gradient of gruStep: from dh and dhNext writes the z and candidate parts of dz [3U]; dhNext becomes the part of
 * h's gradient that passes through z.
 */
export function gruStepGradient(dh: usize, stateStep: usize, dhNext: usize, h: usize, gates: usize, dz: usize, inputStep: usize, B: i32, U: i32, hard: i32): void {
  const row = <usize>U << 2, one = number(1);
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, z = get(gates + at, n), c = get(gates + 2 * row + at, n);
      const dState = sum(dh + at, dhNext + at, n);
      set(dz + at, f32x4.mul(f32x4.mul(dState, f32x4.sub(get(h + at, n), c)), slope(z, hard)), n);
      set(dz + 2 * row + at, f32x4.mul(f32x4.mul(dState, f32x4.sub(one, z)), f32x4.sub(one, f32x4.mul(c, c))), n);
      set(dhNext + at, f32x4.mul(dState, z), n);
    }
    dh += stateStep; dhNext += row; h += stateStep; gates += 3 * row; dz += inputStep;
  }
}

/** Gradient of gruGates: from dReset [U] writes the r part of dz; adds the part of h's gradient through r to dhNext. */
export function gruGatesGradient(dReset: usize, h: usize, stateStep: usize, gates: usize, dz: usize, inputStep: usize, dhNext: usize, B: i32, U: i32, hard: i32): void {
  const row = <usize>U << 2;
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, r = get(gates + row + at, n), d = get(dReset + at, n);
      set(dz + row + at, f32x4.mul(f32x4.mul(d, get(h + at, n)), slope(r, hard)), n);
      set(dhNext + at, f32x4.add(get(dhNext + at, n), f32x4.mul(d, r)), n);
    }
    dReset += row; h += stateStep; gates += 3 * row; dz += inputStep; dhNext += row;
  }
}

/**
 * GRU whose reset gate multiplies the product, gates in the order z, r, h. Takes fromInput [3U], fromState [3U] and
 * h [U]; writes the gates and the candidate [3U], the candidate's part of fromState [U] to `products`, and
 * h2 = z·h + (1 − z)·candidate.
 */
export function gruResetAfterStep(
  fromInput: usize, inputStep: usize, fromState: usize, h: usize, h2: usize, stateStep: usize, gates: usize, products: usize, B: i32, U: i32, hard: i32,
): void {
  const row = <usize>U << 2;
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, x = fromInput + at, s = fromState + at, g = gates + at;
      const z = gate(sum(x, s, n), hard), r = gate(sum(x + row, s + row, n), hard), p = get(s + 2 * row, n);
      const c = tanh(f32x4.add(get(x + 2 * row, n), f32x4.mul(r, p)));
      set(g, z, n); set(g + row, r, n); set(g + 2 * row, c, n);
      set(products + at, p, n);
      set(h2 + at, f32x4.add(f32x4.mul(z, get(h + at, n)), f32x4.mul(f32x4.sub(number(1), z), c)), n);
    }
    fromInput += inputStep; fromState += 3 * row; h += stateStep; h2 += stateStep; gates += 3 * row; products += row;
  }
}

/**
 * Gradient of gruResetAfterStep: from dh and dhNext writes dz [3U] by the input's sums and dState [3U] by the state's
 * (both inputStep bytes apart); dhNext becomes the part of h's gradient that passes through z.
 */
export function gruResetAfterStepGradient(
  dh: usize, stateStep: usize, dhNext: usize, h: usize, gates: usize, products: usize, dz: usize, dState: usize, inputStep: usize, B: i32, U: i32, hard: i32,
): void {
  const row = <usize>U << 2, one = number(1);
  for (let b = 0; b < B; b++) {
    for (let u = 0; u < U; u += 4) {
      const at = <usize>u << 2, n = U - u, g = gates + at, d = dz + at, s = dState + at;
      const z = get(g, n), r = get(g + row, n), c = get(g + 2 * row, n), d2 = sum(dh + at, dhNext + at, n);
      const dGate = f32x4.mul(f32x4.mul(d2, f32x4.sub(get(h + at, n), c)), slope(z, hard));
      const dCandidate = f32x4.mul(f32x4.mul(d2, f32x4.sub(one, z)), f32x4.sub(one, f32x4.mul(c, c)));
      const dReset = f32x4.mul(f32x4.mul(dCandidate, get(products + at, n)), slope(r, hard));
      set(d, dGate, n); set(d + row, dReset, n); set(d + 2 * row, dCandidate, n);
      set(s, dGate, n); set(s + row, dReset, n); set(s + 2 * row, f32x4.mul(dCandidate, r), n);
      set(dhNext + at, f32x4.mul(d2, z), n);
    }
    dh += stateStep; dhNext += row; h += stateStep; gates += 3 * row; products += row; dz += inputStep; dState += inputStep;
  }
}
