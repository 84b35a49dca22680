// Estimates how large a difference to expect, as a context for every number. It takes sums of magnitudes by row, column
// and kernel element, what the encoder made of them (quarter octaves), and the prediction's exponent.

@inline function magnitude(prediction: usize, child: usize, integers: bool): f32 {
  if (integers) {
    const d = load<i32>(child) - load<i32>(prediction);
    return <f32><u32>(d < 0 ? -d : d);
  }
  const d = abs<f32>(load<f32>(child) - load<f32>(prediction));
  return d < Infinity ? d : 0;
}

// The tensor is rows × columns × inner; sums are float32, in four lanes along `inner` and then pairwise.
// innerSums = 0: not wanted. Sums of columns and inner elements are added to what is there.
export function magnitudes(prediction: usize, child: usize, rows: i32, columns: i32, inner: i32, rowSums: usize, columnSums: usize, innerSums: usize, integers: i32): void {
  const whole = <usize>(inner & ~3) << 2, end = <usize>inner << 2, endless = f32x4.splat(Infinity);
  let p = prediction, c = child;
  for (let row = 0; row < rows; row++) {
    let rowSum: f32 = 0;
    for (let column = 0; column < columns; column++) {
      let lanes = f32x4.splat(0);
      let k: usize = 0;
      for (; k < whole; k += 16) {
        let d: v128;
        if (integers) d = f32x4.convert_i32x4_u(i32x4.abs(i32x4.sub(v128.load(c + k), v128.load(p + k))));
        else {
          d = f32x4.abs(f32x4.sub(v128.load(c + k), v128.load(p + k)));
          d = v128.and(d, f32x4.lt(d, endless));
        }
        lanes = f32x4.add(lanes, d);
        if (innerSums) v128.store(innerSums + k, f32x4.add(v128.load(innerSums + k), d));
      }
      let sum = (f32x4.extract_lane(lanes, 0) + f32x4.extract_lane(lanes, 1)) + (f32x4.extract_lane(lanes, 2) + f32x4.extract_lane(lanes, 3));
      for (; k < end; k += 4) {
        const d = magnitude(p + k, c + k, integers != 0);
        sum += d;
        if (innerSums) store<f32>(innerSums + k, load<f32>(innerSums + k) + d);
      }
      const at = columnSums + (<usize>column << 2);
      store<f32>(at, load<f32>(at) + sum);
      rowSum += sum;
      p += end; c += end;
    }
    store<f32>(rowSums + (<usize>row << 2), rowSum);
  }
}

// context = (row + column + inner scale - 4 * exponent of the prediction) / 2, within 0 … 63.
// exponentMask: 255 for floats predicted from something, else 0. innerScales = 0: all zero.
export function contexts(prediction: usize, rows: i32, columns: i32, inner: i32, rowScales: usize, columnScales: usize, innerScales: usize, exponentMask: i32, out: usize): void {
  const mask = i32x4.splat(exponentMask), least = i32x4.splat(0), most = i32x4.splat(63);
  const whole = inner & ~3;
  let p = prediction, o = out;
  for (let row = 0; row < rows; row++) {
    const rowScale = load<i32>(rowScales + (<usize>row << 2));
    for (let column = 0; column < columns; column++) {
      const scale = rowScale + load<i32>(columnScales + (<usize>column << 2)), lanes = i32x4.splat(scale);
      let k = 0;
      for (; k < whole; k += 4) {
        let s = lanes;
        if (innerScales) s = i32x4.add(s, v128.load(innerScales + (<usize>k << 2)));
        s = i32x4.sub(s, i32x4.shl(v128.and(i32x4.shr_u(v128.load(p), 23), mask), 2));
        s = i32x4.min_s(i32x4.max_s(i32x4.shr_s(s, 1), least), most);
        s = i16x8.narrow_i32x4_s(s, s);
        v128.store32_lane(o, i8x16.narrow_i16x8_u(s, s), 0);
        p += 16; o += 4;
      }
      for (; k < inner; k++) {
        let s = scale - (((load<i32>(p) >>> 23) & exponentMask) << 2);
        if (innerScales) s += load<i32>(innerScales + (<usize>k << 2));
        s >>= 1;
        store<u8>(o, <u8>(s < 0 ? 0 : s > 63 ? 63 : s));
        p += 4; o += 1;
      }
    }
  }
}
