/** Orthonormal columns, and eigenvectors of a small symmetric matrix, in float64. Pure. */

/** A matrix of float32, row by row. */
export interface TallMatrix {
  readonly width: number;
  readonly values: Float32Array;
}

/** The relative length under which what is left of a column, after others are taken away, is rounding error. */
const negligible = 1e-9;

/**
 * Makes the columns orthonormal (Gram and Schmidt, modified, two columns taken away at a time); those that depend on
 * others become 0.
 */
export function orthonormalise({ width, values }: TallMatrix): void {
  const length = values.length / width;
  const columns = Array.from({ length: width }, () => new Float64Array(length));
  for (let k = 0; k < width; k++) {
    const column = columns[k]!;
    for (let i = 0, at = k; i < length; i++, at += width) column[i] = values[at]!;
  }
  for (let k = 0; k < width; k++) {
    const column = columns[k]!;
    const before = dot(column, column);
    let j = 0;
    for (; j + 2 <= k; j += 2) takeTwoAway(column, columns[j]!, columns[j + 1]);
    if (j < k) takeTwoAway(column, columns[j]!, undefined);
    const after = dot(column, column);
    const factor = after > negligible * negligible * before ? 1 / Math.sqrt(after) : 0;
    for (let i = 0, at = k; i < length; i++, at += width) {
      column[i]! *= factor;
      values[at] = column[i]!;
    }
  }
}

/** Takes away what a column has of two orthonormal ones. */
function takeTwoAway(column: Float64Array, first: Float64Array, second: Float64Array | undefined): void {
  if (second === undefined) {
    const share = dot(column, first);
    for (let i = 0; i < column.length; i++) column[i] = column[i]! - share * first[i]!;
    return;
  }
  let a = 0;
  let b = 0;
  for (let i = 0; i < column.length; i++) {
    const own = column[i]!;
    a += own * first[i]!;
    b += own * second[i]!;
  }
  for (let i = 0; i < column.length; i++) column[i] = column[i]! - (a * first[i]! + b * second[i]!);
}

function dot(a: Float64Array, b: Float64Array): number {
  let even = 0;
  let odd = 0;
  const whole = a.length & ~1;
  for (let i = 0; i < whole; i += 2) {
    even += a[i]! * b[i]!;
    odd += a[i + 1]! * b[i + 1]!;
  }
  return whole < a.length ? even + odd + a[whole]! * b[whole]! : even + odd;
}

export interface Eigen {
  /** Largest first. */
  readonly values: Float64Array;
  /** Column k belongs to value k; row by row. */
  readonly vectors: Float64Array;
}

const maxSweeps = 60;

/**
 * Eigenvalues and eigenvectors of a symmetric matrix of `size` rows: Householder's tridiagonal form, then QL
 * with implicit shifts (Golub and Van Loan, 8.3; EISPACK's tred2 and tql2).
 */
export function symmetricEigen(matrix: Float64Array, size: number): Eigen {
  const rows = Array.from({ length: size }, (_, i) => matrix.slice(i * size, (i + 1) * size));
  const diagonal = new Float64Array(size);
  const beside = new Float64Array(size);
  tridiagonalise(rows, diagonal, beside);
  // Rotations act on columns, so these are turned into rows of adjacent numbers.
  const columns = rows.map((_, i) => Float64Array.from(rows, (row) => row[i]!));
  diagonalise(columns, diagonal, beside);
  const order = Array.from(diagonal.keys()).sort((i, j) => diagonal[j]! - diagonal[i]!);
  const vectors = new Float64Array(size * size);
  order.forEach((from, k) => columns[from]!.forEach((value, i) => (vectors[i * size + k] = value)));
  return { values: Float64Array.from(order, (i) => diagonal[i]!), vectors };
}

/** Turns `z` into the orthogonal matrix that makes it tridiagonal. */
function tridiagonalise(z: readonly Float64Array[], d: Float64Array, e: Float64Array): void {
  const n = z.length;
  for (let i = n - 1; i > 0; i--) {
    const row = z[i]!;
    let scale = 0;
    for (let k = 0; k < i; k++) scale += Math.abs(row[k]!);
    if (scale === 0 || i === 1) {
      e[i] = row[i - 1]!;
      d[i] = 0;
      continue;
    }
    let h = 0;
    for (let k = 0; k < i; k++) {
      row[k]! /= scale;
      h += row[k]! * row[k]!;
    }
    const f = row[i - 1]!;
    const g = f > 0 ? -Math.sqrt(h) : Math.sqrt(h);
    e[i] = scale * g;
    h -= f * g;
    row[i - 1] = f - g;
    reflect(z, e, i, h);
    d[i] = h;
  }
  d[0] = 0;
  e[0] = 0;
  for (let i = 0; i < n; i++) accumulate(z, d, i);
}

/** Applies the reflection of row i to the rows before it; above and below the diagonal, so that rows are read along. */
function reflect(z: readonly Float64Array[], e: Float64Array, i: number, h: number): void {
  const row = z[i]!;
  let f = 0;
  for (let j = 0; j < i; j++) {
    const own = z[j]!;
    own[i] = row[j]! / h;
    let g = 0;
    for (let k = 0; k < i; k++) g += own[k]! * row[k]!;
    e[j] = g / h;
    f += e[j]! * row[j]!;
  }
  const half = f / (h + h);
  for (let j = 0; j < i; j++) e[j] = e[j]! - half * row[j]!;
  for (let j = 0; j < i; j++) {
    const own = z[j]!;
    const share = row[j]!;
    const g = e[j]!;
    for (let k = 0; k < i; k++) own[k] = own[k]! - (share * e[k]! + g * row[k]!);
  }
}

function accumulate(z: readonly Float64Array[], d: Float64Array, i: number): void {
  const row = z[i]!;
  if (d[i] !== 0) {
    const sums = new Float64Array(i);
    for (let k = 0; k < i; k++) {
      const other = z[k]!;
      const share = row[k]!;
      for (let j = 0; j < i; j++) sums[j] = sums[j]! + share * other[j]!;
    }
    for (let k = 0; k < i; k++) {
      const other = z[k]!;
      const share = other[i]!;
      for (let j = 0; j < i; j++) other[j] = other[j]! - sums[j]! * share;
    }
  }
  d[i] = row[i]!;
  row[i] = 1;
  for (let j = 0; j < i; j++) {
    row[j] = 0;
    z[j]![i] = 0;
  }
}

/** Turns the tridiagonal matrix into its eigenvalues, and the columns `z` into its eigenvectors. */
function diagonalise(z: readonly Float64Array[], d: Float64Array, e: Float64Array): void {
  const n = d.length;
  e.copyWithin(0, 1);
  e[n - 1] = 0;
  for (let l = 0; l < n; l++)
    for (let sweep = 0; sweep < maxSweeps; sweep++) {
      let m = l;
      while (m < n - 1 && Math.abs(e[m]!) > 1e-15 * (Math.abs(d[m]!) + Math.abs(d[m + 1]!))) m++;
      if (m === l) break;
      chase(z, { d, e }, l, m);
    }
}

/** One step with an implicit shift on the block from l to m. */
function chase(
  z: readonly Float64Array[],
  { d, e }: { readonly d: Float64Array; readonly e: Float64Array },
  l: number,
  m: number,
): void {
  let g = (d[l + 1]! - d[l]!) / (2 * e[l]!);
  let r = Math.sqrt(g * g + 1);
  g = d[m]! - d[l]! + e[l]! / (g + (g < 0 ? -r : r));
  let s = 1;
  let c = 1;
  let p = 0;
  for (let i = m - 1; i >= l; i--) {
    const f = s * e[i]!;
    const b = c * e[i]!;
    r = Math.sqrt(f * f + g * g);
    e[i + 1] = r;
    if (r === 0) {
      d[i + 1]! -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1]! - p;
    r = (d[i]! - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    rotate(z[i]!, z[i + 1]!, c, s);
  }
  d[l]! -= p;
  e[l] = g;
  e[m] = 0;
}

function rotate(first: Float64Array, second: Float64Array, c: number, s: number): void {
  for (let k = 0; k < first.length; k++) {
    const a = first[k]!;
    const b = second[k]!;
    second[k] = s * a + c * b;
    first[k] = c * a - s * b;
  }
}
