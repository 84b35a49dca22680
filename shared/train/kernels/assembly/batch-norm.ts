// Batch normalisation for training, [rows, C] float32, followed by an activation: 0 none, 1 relu, 2 relu6.
// Statistics merge blocks by Chan's formula (one read of memory), gradients take two passes. Blocks are
// independent of each other and merged in their order, so the result does not depend on who computes them. The
// activation's mask is computed again from x, so its input is never stored.
import { addColumns, addRow, blockRows } from "./columns";

/**
 * Computes for blocks [first, last) of rowsPerBlock(C) rows: blocks[b][0..C) their means, blocks[b][C..2C)
 * their sums of squared distances from these.
 */
export function batchNormBlocks(x: usize, blocks: usize, first: i32, last: i32, rows: i32, C: i32): void {
  const step = <usize>C << 2, block = blockRows(C);
  for (let b = first; b < last; b++) {
    const p = x + <usize>(b * block) * step, mean = blocks + <usize>b * step * 2, count = min(block, rows - b * block);
    memory.fill(mean, 0, step * 2);
    addColumns(p, count, C, mean);
    const inverse = f32(1) / <f32>count;
    for (let c: usize = 0; c < step; c += 4) store<f32>(mean + c, load<f32>(mean + c) * inverse);
    addSquares(p, mean, mean + step, count, C);
  }
}

/** mean[c] and (biased) variance[c] from all blocks of batchNormBlocks, in their order. */
export function batchNormStatistics(blocks: usize, mean: usize, variance: usize, rows: i32, C: i32): void {
  const step = <usize>C << 2, block = blockRows(C);
  memory.fill(mean, 0, step);
  memory.fill(variance, 0, step);
  let blockMean = blocks;
  for (let r = 0; r < rows; r += block) {
    // The block's share of the rows so far, and the weight of the squared distance between the means.
    const count = min(block, rows - r), part = <f32>count / <f32>(r + count), weight = <f32>r * part;
    for (let c: usize = 0; c < step; c += 4) {
      const delta = load<f32>(blockMean + c) - load<f32>(mean + c);
      store<f32>(mean + c, load<f32>(mean + c) + delta * part);
      store<f32>(variance + c, load<f32>(variance + c) + (load<f32>(blockMean + step + c) + delta * delta * weight));
    }
    blockMean += 2 * step;
  }
  for (let c: usize = 0; c < step; c += 4) store<f32>(variance + c, load<f32>(variance + c) / <f32>rows);
}

/** squares[c] += Σ (x − center)². */
@inline
function addSquares(x: usize, center: usize, squares: usize, rows: i32, C: i32): void {
  const step = <usize>C << 2;
  let r = 0, p = x;
  for (; r + 2 <= rows; r += 2) {
    let c = 0, a = p, m = center, s = squares;
    for (; c + 4 <= C; c += 4) {
      const v = v128.load(m), d0 = f32x4.sub(v128.load(a), v), d1 = f32x4.sub(v128.load(a + step), v);
      v128.store(s, f32x4.add(v128.load(s), f32x4.add(f32x4.mul(d0, d0), f32x4.mul(d1, d1))));
      a += 16; m += 16; s += 16;
    }
    for (; c < C; c++) {
      const d0 = load<f32>(a) - load<f32>(m), d1 = load<f32>(a + step) - load<f32>(m);
      store<f32>(s, load<f32>(s) + (d0 * d0 + d1 * d1));
      a += 4; m += 4; s += 4;
    }
    p += 2 * step;
  }
  if (r < rows) {
    let c = 0, a = p, m = center, s = squares;
    for (; c < C; c++) {
      const d = load<f32>(a) - load<f32>(m);
      store<f32>(s, load<f32>(s) + d * d);
      a += 4; m += 4; s += 4;
    }
  }
}

/** y = activation((x − mean)·factor + beta), factor = gamma / √(variance + ε) from batchNormFactor. */
export function batchNormApply(x: usize, mean: usize, factor: usize, beta: usize, y: usize, rows: i32, C: i32, activation: i32): void {
  if (activation == 0) applyRows(x, mean, factor, beta, y, rows, C, -Infinity, Infinity);
  else if (activation == 1) applyRows(x, mean, factor, beta, y, rows, C, 0, Infinity);
  else applyRows(x, mean, factor, beta, y, rows, C, 0, 6);
}

function applyRows(x: usize, mean: usize, factor: usize, beta: usize, y: usize, rows: i32, C: i32, low: f32, high: f32): void {
  const l = f32x4.splat(low), h = f32x4.splat(high);
  let p = x, q = y;
  for (let r = 0; r < rows; r++) {
    let c = 0, m = mean, k = factor, b = beta;
    for (; c + 4 <= C; c += 4) {
      const v = f32x4.add(f32x4.mul(f32x4.sub(v128.load(p), v128.load(m)), v128.load(k)), v128.load(b));
      v128.store(q, f32x4.min(f32x4.max(v, l), h));
      p += 16; q += 16; m += 16; k += 16; b += 16;
    }
    for (; c < C; c++) {
      const v = (load<f32>(p) - load<f32>(m)) * load<f32>(k) + load<f32>(b);
      store<f32>(q, min<f32>(max<f32>(v, low), high));
      p += 4; q += 4; m += 4; k += 4; b += 4;
    }
  }
}

/**
 * Computes for blocks [first, last) of rowsPerBlock(C) rows: blocks[b][0..C) = Σ g, blocks[b][C..2C) = Σ g·(x
 * − mean), g = dy under the activation's mask.
 */
export function batchNormBlockSums(x: usize, dy: usize, mean: usize, factor: usize, beta: usize, blocks: usize, first: i32, last: i32, rows: i32, C: i32, activation: i32): void {
  const step = <usize>C << 2, block = blockRows(C);
  for (let b = first; b < last; b++) {
    const at = <usize>(b * block) * step, p = x + at, q = dy + at, sums = blocks + <usize>b * step * 2, count = min(block, rows - b * block);
    memory.fill(sums, 0, 2 * step);
    if (activation == 0) sumBlock(p, q, mean, factor, beta, sums, count, C, 0, 0);
    else if (activation == 1) sumBlock(p, q, mean, factor, beta, sums, count, C, 1, Infinity);
    else sumBlock(p, q, mean, factor, beta, sums, count, C, 1, 6);
  }
}

/** sums[0..2C) = Σ of all blocks of batchNormBlockSums, in their order. */
export function batchNormSums(blocks: usize, sums: usize, rows: i32, C: i32): void {
  const step = <usize>C << 2, block = blockRows(C);
  memory.fill(sums, 0, 2 * step);
  let from = blocks;
  for (let r = 0; r < rows; r += block, from += 2 * step) addRow(from, sums, 2 * C);
}

/** g = dy·[0 < y ≤ top], y as batchNormApply computes it before the activation; NaN where y is NaN. */
@inline
function masked(dy: v128, distance: v128, factor: usize, beta: usize, top: f32): v128 {
  const y = f32x4.add(f32x4.mul(distance, v128.load(factor)), v128.load(beta));
  const open = v128.and(f32x4.gt(y, f32x4.splat(0)), f32x4.le(y, f32x4.splat(top)));
  return f32x4.mul(dy, v128.or(v128.and(open, f32x4.splat(1)), f32x4.ne(y, y)));
}

@inline
function maskedOne(dy: f32, distance: f32, factor: usize, beta: usize, top: f32): f32 {
  const y = distance * load<f32>(factor) + load<f32>(beta);
  return dy * (y != y ? y : y > 0 && y <= top ? <f32>1 : <f32>0);
}

@inline
function sumBlock(x: usize, dy: usize, mean: usize, factor: usize, beta: usize, sums: usize, rows: i32, C: i32, mask: i32, top: f32): void {
  const step = <usize>C << 2;
  let r = 0, p = x, q = dy;
  for (; r + 2 <= rows; r += 2) {
    let c = 0, a = p, g = q, s = sums, at: usize = 0;
    for (; c + 4 <= C; c += 4) {
      const m = v128.load(mean + at), d0 = f32x4.sub(v128.load(a), m), d1 = f32x4.sub(v128.load(a + step), m);
      let g0 = v128.load(g), g1 = v128.load(g + step);
      if (mask) { g0 = masked(g0, d0, factor + at, beta + at, top); g1 = masked(g1, d1, factor + at, beta + at, top); }
      v128.store(s, f32x4.add(v128.load(s), f32x4.add(g0, g1)));
      v128.store(s + step, f32x4.add(v128.load(s + step), f32x4.add(f32x4.mul(g0, d0), f32x4.mul(g1, d1))));
      a += 16; g += 16; s += 16; at += 16;
    }
    for (; c < C; c++) {
      const m = load<f32>(mean + at), d0 = load<f32>(a) - m, d1 = load<f32>(a + step) - m;
      let g0 = load<f32>(g), g1 = load<f32>(g + step);
      if (mask) { g0 = maskedOne(g0, d0, factor + at, beta + at, top); g1 = maskedOne(g1, d1, factor + at, beta + at, top); }
      store<f32>(s, load<f32>(s) + (g0 + g1));
      store<f32>(s + step, load<f32>(s + step) + (g0 * d0 + g1 * d1));
      a += 4; g += 4; s += 4; at += 4;
    }
    p += 2 * step; q += 2 * step;
  }
  if (r < rows) {
    for (let c: usize = 0; c < step; c += 4) {
      const d = load<f32>(p + c) - load<f32>(mean + c);
      let g = load<f32>(q + c);
      if (mask) g = maskedOne(g, d, factor + c, beta + c, top);
      store<f32>(sums + c, load<f32>(sums + c) + g);
      store<f32>(sums + step + c, load<f32>(sums + step + c) + g * d);
    }
  }
}

/** dx = g·factor + ((x − mean)·slope + shift), slope and shift per channel from batchNormCoefficients. */
export function batchNormGradient(x: usize, dy: usize, mean: usize, factor: usize, beta: usize, slope: usize, shift: usize, dx: usize, rows: i32, C: i32, activation: i32): void {
  if (activation == 0) gradientRows(x, dy, mean, factor, beta, slope, shift, dx, rows, C, 0, 0);
  else if (activation == 1) gradientRows(x, dy, mean, factor, beta, slope, shift, dx, rows, C, 1, Infinity);
  else gradientRows(x, dy, mean, factor, beta, slope, shift, dx, rows, C, 1, 6);
}

@inline
function gradientRows(x: usize, dy: usize, mean: usize, factor: usize, beta: usize, slope: usize, shift: usize, dx: usize, rows: i32, C: i32, mask: i32, top: f32): void {
  let p = x, q = dy, out = dx;
  for (let r = 0; r < rows; r++) {
    let c = 0, at: usize = 0;
    for (; c + 4 <= C; c += 4) {
      const d = f32x4.sub(v128.load(p), v128.load(mean + at));
      let g = v128.load(q);
      if (mask) g = masked(g, d, factor + at, beta + at, top);
      const rest = f32x4.add(f32x4.mul(d, v128.load(slope + at)), v128.load(shift + at));
      v128.store(out, f32x4.add(f32x4.mul(g, v128.load(factor + at)), rest));
      p += 16; q += 16; out += 16; at += 16;
    }
    for (; c < C; c++) {
      const d = load<f32>(p) - load<f32>(mean + at);
      let g = load<f32>(q);
      if (mask) g = maskedOne(g, d, factor + at, beta + at, top);
      store<f32>(out, g * load<f32>(factor + at) + (d * load<f32>(slope + at) + load<f32>(shift + at)));
      p += 4; q += 4; out += 4; at += 4;
    }
  }
}

/** factor = gamma / √(variance + ε); the pointer gamma = 0 stands for ones. */
export function batchNormFactor(variance: usize, gamma: usize, factor: usize, C: i32, epsilon: f32): void {
  for (let c: usize = 0; c < <usize>C << 2; c += 4) {
    const inverse = f32(1) / sqrt<f32>(load<f32>(variance + c) + epsilon);
    store<f32>(factor + c, gamma == 0 ? inverse : inverse * load<f32>(gamma + c));
  }
}

/** Computes the gradients of gamma and beta from the sums, and slope and shift for batchNormGradient. */
export function batchNormCoefficients(sums: usize, variance: usize, factor: usize, dgamma: usize, dbeta: usize, slope: usize, shift: usize, rows: i32, C: i32, epsilon: f32): void {
  const step = <usize>C << 2, n = <f32>rows;
  for (let c: usize = 0; c < step; c += 4) {
    const sum = load<f32>(sums + c), product = load<f32>(sums + step + c), k = load<f32>(factor + c);
    const inverse = f32(1) / sqrt<f32>(load<f32>(variance + c) + epsilon), scaled = product * inverse;
    store<f32>(dgamma + c, scaled);
    store<f32>(dbeta + c, sum);
    store<f32>(slope + c, -(k * (inverse * (scaled / n))));
    store<f32>(shift + c, -(k * (sum / n)));
  }
}
