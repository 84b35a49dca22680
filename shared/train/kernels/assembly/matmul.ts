// Matrix products of float32 on raw pointers: C = A·B with B packed into panels of eight columns.
// The caller allocates all memory. Every element of C is one chain of float32 multiplications and additions in
// the order of k (the chains of blocks are added in the order of blocks), so the result does not depend on how
// the work is divided. No fused multiply-add.

/** Bytes of one row of a packed panel: eight columns. */
const PANEL: usize = 32;

/**
 * Packs B[k][n] = src[k·strideK + n·strideN] (strides in elements) into panels[n/8][k][8]; columns
 * past N are zero. `panels` holds ceil(N/8)·K·32 bytes.
 */
export function packPanels(src: usize, panels: usize, K: i32, N: i32, strideK: i32, strideN: i32): void {
  const sk = <usize>strideK << 2, sn = <usize>strideN << 2;
  let out = panels;
  for (let n = 0; n < N; n += 8) {
    const width = min(8, N - n);
    let row = src + <usize>n * sn;
    if (width == 8 && strideN == 1) {
      for (let k = 0; k < K; k++) {
        v128.store(out, v128.load(row));
        v128.store(out, v128.load(row, 16), 16);
        row += sk; out += PANEL;
      }
    } else if (width == 8 && strideK == 1) {
      out = packTransposed(row, out, K, sn);
    } else {
      for (let k = 0; k < K; k++) {
        for (let i = 0; i < 8; i++) store<f32>(out + (<usize>i << 2), i < width ? load<f32>(row + <usize>i * sn) : 0);
        row += sk; out += PANEL;
      }
    }
  }
}

/** Packs eight columns of a matrix with contiguous k by 4×4 transposes. Returns the end of the written panel. */
function packTransposed(src: usize, panel: usize, K: i32, sn: usize): usize {
  let out = panel, p = src, k = 0;
  for (; k + 4 <= K; k += 4) {
    transpose4(p, sn, out);
    transpose4(p + 4 * sn, sn, out + 16);
    p += 16; out += 4 * PANEL;
  }
  for (; k < K; k++) {
    for (let i: usize = 0; i < 8; i++) store<f32>(out + (i << 2), load<f32>(p + i * sn));
    p += 4; out += PANEL;
  }
  return out;
}

@inline
function transpose4(p: usize, step: usize, out: usize): void {
  const r0 = v128.load(p), r1 = v128.load(p + step), r2 = v128.load(p + 2 * step), r3 = v128.load(p + 3 * step);
  const a = v128.shuffle<i32>(r0, r1, 0, 4, 1, 5), b = v128.shuffle<i32>(r0, r1, 2, 6, 3, 7);
  const c = v128.shuffle<i32>(r2, r3, 0, 4, 1, 5), d = v128.shuffle<i32>(r2, r3, 2, 6, 3, 7);
  v128.store(out, v128.shuffle<i64>(a, c, 0, 2));
  v128.store(out + PANEL, v128.shuffle<i64>(a, c, 1, 3));
  v128.store(out + 2 * PANEL, v128.shuffle<i64>(b, d, 0, 2));
  v128.store(out + 3 * PANEL, v128.shuffle<i64>(b, d, 1, 3));
}

/** Stores `width` (1 to 8) floats; adds them to the stored ones where `add` is set. */
@inline
function put(c: usize, low: v128, high: v128, width: i32, add: bool): void {
  if (width == 8) {
    if (add) {
      low = f32x4.add(v128.load(c), low);
      high = f32x4.add(v128.load(c, 16), high);
    }
    v128.store(c, low);
    v128.store(c, high, 16);
  } else putPart(c, low, high, width, add);
}

function putPart(c: usize, low: v128, high: v128, width: i32, add: bool): void {
  let part = low, left = width, at = c;
  if (left >= 4) {
    if (add) part = f32x4.add(v128.load(at), part);
    v128.store(at, part);
    at += 16; left -= 4; part = high;
  }
  for (; left > 0; left--) {
    const value = f32x4.extract_lane(part, 0);
    store<f32>(at, add ? load<f32>(at) + value : value);
    part = v128.shuffle<i32>(part, part, 1, 2, 3, 3);
    at += 4;
  }
}

/** Four rows by eight columns over k. A's element (r, k) is at a + r·rowStep + k·kStep. */
@inline
function block4(a: usize, rowStep: usize, kStep: usize, b: usize, bStep: usize, K: i32, c: usize, cStep: usize, width: i32, add: bool): void {
  let c00 = f32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00;
  let p0 = a, p1 = a + rowStep, p2 = p1 + rowStep, p3 = p2 + rowStep, q = b;
  for (let k = 0; k < K; k++) {
    const b0 = v128.load(q), b1 = v128.load(q, 16);
    let s = v128.load32_splat(p0);
    c00 = f32x4.add(c00, f32x4.mul(s, b0)); c01 = f32x4.add(c01, f32x4.mul(s, b1));
    s = v128.load32_splat(p1);
    c10 = f32x4.add(c10, f32x4.mul(s, b0)); c11 = f32x4.add(c11, f32x4.mul(s, b1));
    s = v128.load32_splat(p2);
    c20 = f32x4.add(c20, f32x4.mul(s, b0)); c21 = f32x4.add(c21, f32x4.mul(s, b1));
    s = v128.load32_splat(p3);
    c30 = f32x4.add(c30, f32x4.mul(s, b0)); c31 = f32x4.add(c31, f32x4.mul(s, b1));
    p0 += kStep; p1 += kStep; p2 += kStep; p3 += kStep; q += bStep;
  }
  put(c, c00, c01, width, add);
  put(c + cStep, c10, c11, width, add);
  put(c + 2 * cStep, c20, c21, width, add);
  put(c + 3 * cStep, c30, c31, width, add);
}

/** One row by eight columns over k. */
@inline
function block1(a: usize, kStep: usize, b: usize, bStep: usize, K: i32, c: usize, width: i32, add: bool): void {
  let c0 = f32x4.splat(0), c1 = c0, p = a, q = b;
  for (let k = 0; k < K; k++) {
    const s = v128.load32_splat(p);
    c0 = f32x4.add(c0, f32x4.mul(s, v128.load(q)));
    c1 = f32x4.add(c1, f32x4.mul(s, v128.load(q, 16)));
    p += kStep; q += bStep;
  }
  put(c, c0, c1, width, add);
}

/** Rows of A that are multiplied with all panels before the next rows: they stay in the second-level cache. */
export const ROWS: i32 = 64;

/**
 * C[m][n] = Σk A[m][k]·B[k][n]. A's rows are `lda` elements apart with contiguous k, C's rows
 * `ldc` elements apart. `panels` as packPanels writes them.
 */
export function matMulRows(a: usize, lda: i32, panels: usize, c: usize, ldc: i32, M: i32, N: i32, K: i32): void {
  const rowStep = <usize>lda << 2, cStep = <usize>ldc << 2, panelBytes = <usize>K * PANEL;
  for (let m0 = 0; m0 < M; m0 += ROWS) {
    const m1 = min(M, m0 + ROWS);
    let panel = panels;
    for (let n = 0; n < N; n += 8) {
      const width = min(8, N - n);
      let m = m0, p = a + <usize>m0 * rowStep, out = c + <usize>m0 * cStep + (<usize>n << 2);
      for (; m + 4 <= m1; m += 4) {
        block4(p, rowStep, 4, panel, PANEL, K, out, cStep, width, false);
        p += 4 * rowStep; out += 4 * cStep;
      }
      for (; m < m1; m++) {
        block1(p, 4, panel, PANEL, K, out, width, false);
        p += rowStep; out += cStep;
      }
      panel += panelBytes;
    }
  }
}

/**
 * Multiplies as matMulRows, but reads a row-major B in place. Computes the columns up to a multiple of eight;
 * the caller computes the remaining ones. Faster where A has too few rows for packing to pay.
 */
export function matMulInPlace(a: usize, lda: i32, b: usize, ldb: i32, c: usize, ldc: i32, M: i32, N: i32, K: i32): void {
  const rowStep = <usize>lda << 2, cStep = <usize>ldc << 2, bStep = <usize>ldb << 2;
  for (let n = 0; n + 8 <= N; n += 8) {
    let m = 0, p = a, out = c + (<usize>n << 2);
    const column = b + (<usize>n << 2);
    for (; m + 4 <= M; m += 4) {
      block4(p, rowStep, 4, column, bStep, K, out, cStep, 8, false);
      p += 4 * rowStep; out += 4 * cStep;
    }
    for (; m < M; m++) {
      block1(p, 4, column, bStep, K, out, 8, false);
      p += rowStep; out += cStep;
    }
  }
}

/**
 * C[m][n] (+)= Σk A[m][k]·B[k][n] for one block of k, A packed as panels of four rows [m/4][k][4]
 * (rows past M zero). Adds to C where `add` is set.
 */
export function matMulPacked(rows: usize, panels: usize, c: usize, ldc: i32, M: i32, N: i32, K: i32, add: bool): void {
  const cStep = <usize>ldc << 2, panelBytes = <usize>K * PANEL, rowBytes = <usize>K << 4;
  for (let n = 0, panel = panels; n < N; n += 8, panel += panelBytes) {
    const width = min(8, N - n);
    let m = 0, p = rows, out = c + (<usize>n << 2);
    for (; m + 4 <= M; m += 4) {
      block4(p, 4, 16, panel, PANEL, K, out, cStep, width, add);
      p += rowBytes; out += 4 * cStep;
    }
    for (; m < M; m++) {
      block1(p, 16, panel, PANEL, K, out, width, add);
      p += 4; out += cStep;
    }
  }
}

/** Depth of a block: rows of k of which the packed operands are in the second-level cache. */
export const BLOCK: i32 = 256;

/**
 * C[m][n] = Σk A[k][m]·B[k][n] in blocks of BLOCK rows of k. A's rows are `lda` elements apart, C's `ldc`; B's
 * strides as in packPanels. `scratch` holds (ceil(M/4)·16 + ceil(N/8)·32)·min(K, BLOCK) bytes.
 */
export function matMulTransposed(scratch: usize, a: usize, lda: i32, b: usize, strideK: i32, strideN: i32, c: usize, ldc: i32, M: i32, N: i32, K: i32): void {
  const panels = scratch + <usize>((M + 3) >> 2) * <usize>min(K, BLOCK) * 16;
  for (let k = 0; k < K; k += BLOCK) {
    const count = min(BLOCK, K - k);
    packRows(a + (<usize>k * <usize>lda << 2), scratch, count, M, lda);
    packPanels(b + (<usize>k * <usize>strideK << 2), panels, count, N, strideK, strideN);
    matMulPacked(scratch, panels, c, ldc, M, N, count, k > 0);
  }
}

/** Packs A with contiguous m into panels of four rows: A[m][k] = src[k·strideK + m] → out[m/4][k][4]. */
export function packRows(src: usize, out: usize, K: i32, M: i32, strideK: i32): void {
  const step = <usize>strideK << 2;
  let to = out;
  for (let m = 0; m < M; m += 4) {
    let p = src + (<usize>m << 2);
    if (m + 4 <= M) {
      for (let k = 0; k < K; k++) { v128.store(to, v128.load(p)); p += step; to += 16; }
    } else {
      for (let k = 0; k < K; k++) {
        for (let i = 0; i < 4; i++) store<f32>(to + (<usize>i << 2), m + i < M ? load<f32>(p + (<usize>i << 2)) : 0);
        p += step; to += 16;
      }
    }
  }
}
