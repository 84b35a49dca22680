// Multiplies matrices for low-rank predictions, in a fixed order of float32 operations. Every element of a
// result is a sum in order of its index, so that blocking changes no bit. Matrices are row-major without
// gaps; widths of the tall, thin ones are multiples of 8.

// Computes what the base misses, each number times its row's and its column's weight; 0 where that is not
// finite or above 256: a number that is alone in a quiet row and a quiet column would hide all structure.
export function weightDifferences(base: usize, child: usize, rows: i32, columns: i32, rowWeights: usize, columnWeights: usize, out: usize): void {
  const whole = <usize>(columns & ~3) << 2, end = <usize>columns << 2, limit = f32x4.splat(256);
  let b = base, c = child, o = out;
  for (let row = 0; row < rows; row++) {
    const weight = load<f32>(rowWeights + (<usize>row << 2)), weights = f32x4.splat(weight);
    let k: usize = 0;
    for (; k < whole; k += 16) {
      const d = f32x4.mul(f32x4.mul(f32x4.sub(v128.load(c + k), v128.load(b + k)), weights), v128.load(columnWeights + k));
      v128.store(o + k, v128.and(d, f32x4.lt(f32x4.abs(d), limit)));
    }
    for (; k < end; k += 4) {
      const d = (load<f32>(c + k) - load<f32>(b + k)) * weight * load<f32>(columnWeights + k);
      store<f32>(o + k, abs<f32>(d) < 256 ? d : 0);
    }
    b += end; c += end; o += end;
  }
}

// out (rows × width) = matrix (rows × columns) · right (columns × width), four rows and eight columns at a time.
export function multiply(matrix: usize, rows: i32, columns: i32, right: usize, width: i32, out: usize): void {
  const stride = <usize>width << 2, end = <usize>columns << 2;
  let row = 0, m = matrix, o = out;
  for (; row + 4 <= rows; row += 4) {
    for (let q: usize = 0; q < stride; q += 32) {
      let a0 = f32x4.splat(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
      let r = right + q;
      for (let k: usize = 0; k < end; k += 4) {
        const low = v128.load(r), high = v128.load(r + 16);
        const a = v128.load32_splat(m + k), b = v128.load32_splat(m + end + k), c = v128.load32_splat(m + 2 * end + k), d = v128.load32_splat(m + 3 * end + k);
        a0 = f32x4.add(a0, f32x4.mul(a, low)); a1 = f32x4.add(a1, f32x4.mul(a, high));
        b0 = f32x4.add(b0, f32x4.mul(b, low)); b1 = f32x4.add(b1, f32x4.mul(b, high));
        c0 = f32x4.add(c0, f32x4.mul(c, low)); c1 = f32x4.add(c1, f32x4.mul(c, high));
        d0 = f32x4.add(d0, f32x4.mul(d, low)); d1 = f32x4.add(d1, f32x4.mul(d, high));
        r += stride;
      }
      v128.store(o + q, a0); v128.store(o + q + 16, a1);
      v128.store(o + stride + q, b0); v128.store(o + stride + q + 16, b1);
      v128.store(o + 2 * stride + q, c0); v128.store(o + 2 * stride + q + 16, c1);
      v128.store(o + 3 * stride + q, d0); v128.store(o + 3 * stride + q + 16, d1);
    }
    m += 4 * end; o += 4 * stride;
  }
  for (; row < rows; row++) {
    for (let q: usize = 0; q < stride; q += 32) {
      let a0 = f32x4.splat(0), a1 = a0;
      let r = right + q;
      for (let k: usize = 0; k < end; k += 4) {
        const a = v128.load32_splat(m + k);
        a0 = f32x4.add(a0, f32x4.mul(a, v128.load(r))); a1 = f32x4.add(a1, f32x4.mul(a, v128.load(r + 16)));
        r += stride;
      }
      v128.store(o + q, a0); v128.store(o + q + 16, a1);
    }
    m += end; o += stride;
  }
}

// out (columns × width) += transposed matrix (rows × columns) · left (rows × width).
export function multiplyTransposed(matrix: usize, rows: i32, columns: i32, left: usize, width: i32, out: usize): void {
  const stride = <usize>width << 2, end = <usize>columns << 2;
  let row = 0, m = matrix, l = left;
  for (; row + 4 <= rows; row += 4) {
    for (let q: usize = 0; q < stride; q += 32) {
      const a0 = v128.load(l + q), a1 = v128.load(l + q + 16), b0 = v128.load(l + stride + q), b1 = v128.load(l + stride + q + 16);
      const c0 = v128.load(l + 2 * stride + q), c1 = v128.load(l + 2 * stride + q + 16), d0 = v128.load(l + 3 * stride + q), d1 = v128.load(l + 3 * stride + q + 16);
      let o = out + q;
      for (let k: usize = 0; k < end; k += 4) {
        const a = v128.load32_splat(m + k), b = v128.load32_splat(m + end + k), c = v128.load32_splat(m + 2 * end + k), d = v128.load32_splat(m + 3 * end + k);
        v128.store(o, f32x4.add(f32x4.add(f32x4.add(f32x4.add(v128.load(o), f32x4.mul(a, a0)), f32x4.mul(b, b0)), f32x4.mul(c, c0)), f32x4.mul(d, d0)));
        v128.store(o + 16, f32x4.add(f32x4.add(f32x4.add(f32x4.add(v128.load(o + 16), f32x4.mul(a, a1)), f32x4.mul(b, b1)), f32x4.mul(c, c1)), f32x4.mul(d, d1)));
        o += stride;
      }
    }
    m += 4 * end; l += 4 * stride;
  }
  for (; row < rows; row++) {
    for (let q: usize = 0; q < stride; q += 32) {
      const a0 = v128.load(l + q), a1 = v128.load(l + q + 16);
      let o = out + q;
      for (let k: usize = 0; k < end; k += 4) {
        const a = v128.load32_splat(m + k);
        v128.store(o, f32x4.add(v128.load(o), f32x4.mul(a, a0))); v128.store(o + 16, f32x4.add(v128.load(o + 16), f32x4.mul(a, a1)));
        o += stride;
      }
    }
    m += end; l += stride;
  }
}

@inline function finiteSum(base: v128, sum: v128): v128 {
  const x = f32x4.add(base, sum), exponent = i32x4.splat(0x7f800000);
  return v128.bitselect(base, x, i32x4.eq(v128.and(x, exponent), exponent));
}

@inline function finite(base: u32, sum: f32): u32 {
  const x = reinterpret<u32>(reinterpret<f32>(base) + sum);
  return (x & 0x7f800000) == 0x7f800000 ? base : x;
}

// out = base + left (rows × rank) · right (rank × columns), the product summed from 0 first; the base where
// that is not finite. `out` may be `base`.
export function addProduct(base: usize, rows: i32, columns: i32, left: usize, rank: i32, right: usize, out: usize): void {
  const end = <usize>columns << 2, terms = <usize>rank << 2;
  let row = 0, b = base, l = left, o = out;
  for (; row + 2 <= rows; row += 2) {
    let k: usize = 0;
    for (; k + 32 <= end; k += 32) {
      let a0 = f32x4.splat(0), a1 = a0, c0 = a0, c1 = a0, r = right + k;
      for (let t: usize = 0; t < terms; t += 4) {
        const x = v128.load32_splat(l + t), y = v128.load32_splat(l + terms + t), low = v128.load(r), high = v128.load(r + 16);
        a0 = f32x4.add(a0, f32x4.mul(x, low)); a1 = f32x4.add(a1, f32x4.mul(x, high));
        c0 = f32x4.add(c0, f32x4.mul(y, low)); c1 = f32x4.add(c1, f32x4.mul(y, high));
        r += end;
      }
      v128.store(o + k, finiteSum(v128.load(b + k), a0)); v128.store(o + k + 16, finiteSum(v128.load(b + k + 16), a1));
      v128.store(o + end + k, finiteSum(v128.load(b + end + k), c0)); v128.store(o + end + k + 16, finiteSum(v128.load(b + end + k + 16), c1));
    }
    for (; k < end; k += 4) {
      let x: f32 = 0, y: f32 = 0, r = right + k;
      for (let t: usize = 0; t < terms; t += 4, r += end) { x += load<f32>(l + t) * load<f32>(r); y += load<f32>(l + terms + t) * load<f32>(r); }
      store<u32>(o + k, finite(load<u32>(b + k), x));
      store<u32>(o + end + k, finite(load<u32>(b + end + k), y));
    }
    b += 2 * end; o += 2 * end; l += 2 * terms;
  }
  if (row < rows)
    for (let k: usize = 0; k < end; k += 4) {
      let x: f32 = 0, r = right + k;
      for (let t: usize = 0; t < terms; t += 4, r += end) x += load<f32>(l + t) * load<f32>(r);
      store<u32>(o + k, finite(load<u32>(b + k), x));
    }
}
