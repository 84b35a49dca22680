// Sums rows by segment: out[S, R] = Σ x[i, R] where ids[i] = s, in the order of i. Ids out of
// range are skipped, as TensorFlow does with negative ones. For int32 and float32.

export function segmentSumFloat(x: usize, ids: usize, out: usize, count: i32, R: i32, S: i32): void {
  const bytes = <usize>R << 2;
  memory.fill(out, 0, <usize>S * bytes);
  for (let i = 0; i < count; i++) {
    const s = load<i32>(ids + (<usize>i << 2));
    if (<u32>s >= <u32>S) continue;
    let p = x + <usize>i * bytes, q = out + <usize>s * bytes, j = 0;
    for (; j + 4 <= R; j += 4) { v128.store(q, f32x4.add(v128.load(q), v128.load(p))); p += 16; q += 16; }
    for (; j < R; j++) { store<f32>(q, load<f32>(q) + load<f32>(p)); p += 4; q += 4; }
  }
}

export function segmentSumInt(x: usize, ids: usize, out: usize, count: i32, R: i32, S: i32): void {
  const bytes = <usize>R << 2;
  memory.fill(out, 0, <usize>S * bytes);
  for (let i = 0; i < count; i++) {
    const s = load<i32>(ids + (<usize>i << 2));
    if (<u32>s >= <u32>S) continue;
    let p = x + <usize>i * bytes, q = out + <usize>s * bytes;
    for (let j = 0; j < R; j++) { store<i32>(q, load<i32>(q) + load<i32>(p)); p += 4; q += 4; }
  }
}
