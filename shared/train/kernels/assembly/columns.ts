// Sums over the rows of a [rows, C] matrix, float32. Rows are added in groups of four, groups to the sum of a
// block, blocks to the total: a fixed order, with errors that grow with the block's size, not with the rows.

/** Rows per block: as many as fit in 128 KiB, a multiple of four. Depends on C alone. */
@inline
export function blockRows(C: i32): i32 { return max(4, (32768 / C) & ~3); }

/** Returns the rows of a block as blockRows, for callers outside. */
export function rowsPerBlock(C: i32): i32 { return blockRows(C); }

/** sum[c] += Σ over `rows` rows of x. */
@inline
export function addColumns(x: usize, rows: i32, C: i32, sum: usize): void {
  const step = <usize>C << 2;
  let r = 0, p = x;
  for (; r + 4 <= rows; r += 4) {
    let c = 0, a = p, s = sum;
    for (; c + 4 <= C; c += 4) {
      const v = f32x4.add(f32x4.add(v128.load(a), v128.load(a + step)), f32x4.add(v128.load(a + 2 * step), v128.load(a + 3 * step)));
      v128.store(s, f32x4.add(v128.load(s), v));
      a += 16; s += 16;
    }
    for (; c < C; c++) {
      store<f32>(s, load<f32>(s) + ((load<f32>(a) + load<f32>(a + step)) + (load<f32>(a + 2 * step) + load<f32>(a + 3 * step))));
      a += 4; s += 4;
    }
    p += 4 * step;
  }
  for (; r < rows; r++) {
    let c = 0, a = p, s = sum;
    for (; c + 4 <= C; c += 4) { v128.store(s, f32x4.add(v128.load(s), v128.load(a))); a += 16; s += 16; }
    for (; c < C; c++) { store<f32>(s, load<f32>(s) + load<f32>(a)); a += 4; s += 4; }
    p += step;
  }
}

/** Adds a row: to[c] += from[c]. */
@inline
export function addRow(from: usize, to: usize, count: i32): void {
  let c = 0, s = from, d = to;
  for (; c + 4 <= count; c += 4) { v128.store(d, f32x4.add(v128.load(d), v128.load(s))); s += 16; d += 16; }
  for (; c < count; c++) { store<f32>(d, load<f32>(d) + load<f32>(s)); s += 4; d += 4; }
}

/** out[g][c] = factor · Σr x[g][r][c]; `scratch` holds C floats. */
export function sumRows(x: usize, out: usize, scratch: usize, groups: i32, rows: i32, C: i32, factor: f32): void {
  const step = <usize>C << 2, block = blockRows(C);
  let p = x, total = out;
  for (let g = 0; g < groups; g++) {
    memory.fill(total, 0, step);
    for (let r = 0; r < rows; r += block) {
      const count = min(block, rows - r);
      memory.fill(scratch, 0, step);
      addColumns(p, count, C, scratch);
      addRow(scratch, total, C);
      p += <usize>count * step;
    }
    if (factor != 1) for (let c: usize = 0; c < step; c += 4) store<f32>(total + c, load<f32>(total + c) * factor);
    total += step;
  }
}

/** y[r][c] = x[r][c] · factor[c]. */
export function scaleColumns(x: usize, factor: usize, y: usize, rows: i32, C: i32): void {
  let p = x, q = y;
  for (let r = 0; r < rows; r++) {
    let c = 0, f = factor;
    for (; c + 4 <= C; c += 4) { v128.store(q, f32x4.mul(v128.load(p), v128.load(f))); p += 16; q += 16; f += 16; }
    for (; c < C; c++) { store<f32>(q, load<f32>(p) * load<f32>(f)); p += 4; q += 4; f += 4; }
  }
}
