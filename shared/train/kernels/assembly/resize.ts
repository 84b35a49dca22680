// Computes the gradient of resizing an image (NHWC, float32), nearest neighbour and bilinear. Each output pixel adds
// its gradient to the input pixels it was read from, in the order of output pixels. Tables list those: one entry per
// row and per column of the output, with two source indices (int32) and the weight of the second.
import { addRow } from "./columns";

/** tables: OH entries of rows, then OW of columns, each [first i32, second i32, weight f32]. */
export function resizeGradient(dy: usize, dx: usize, tables: usize, N: i32, H: i32, W: i32, C: i32, OH: i32, OW: i32): void {
  const bytes = <usize>C << 2, columns = tables + <usize>OH * 12;
  memory.fill(dx, 0, <usize>(N * H * W) * bytes);
  let g = dy;
  for (let n = 0; n < N; n++) for (let oh = 0; oh < OH; oh++) {
    const row = tables + <usize>oh * 12, down = load<f32>(row, 8);
    const top = dx + <usize>(n * H + load<i32>(row)) * <usize>W * bytes, bottom = dx + <usize>(n * H + load<i32>(row, 4)) * <usize>W * bytes;
    for (let ow = 0; ow < OW; ow++) {
      const column = columns + <usize>ow * 12, right = load<f32>(column, 8);
      const left = <usize>load<i32>(column) * bytes, next = <usize>load<i32>(column, 4) * bytes;
      if (down == 0 && right == 0) addRow(g, top + left, C);
      else {
        addScaled(g, top + left, C, (1 - down) * (1 - right));
        addScaled(g, top + next, C, (1 - down) * right);
        addScaled(g, bottom + left, C, down * (1 - right));
        addScaled(g, bottom + next, C, down * right);
      }
      g += bytes;
    }
  }
}

@inline
function addScaled(from: usize, to: usize, count: i32, factor: f32): void {
  const f = f32x4.splat(factor);
  let c = 0, s = from, d = to;
  for (; c + 4 <= count; c += 4) { v128.store(d, f32x4.add(v128.load(d), f32x4.mul(v128.load(s), f))); s += 16; d += 16; }
  for (; c < count; c++) { store<f32>(d, load<f32>(d) + load<f32>(s) * factor); s += 4; d += 4; }
}
