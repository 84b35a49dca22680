// Sums and tables of contexts, of 64 symbols each.

// Counts the numbers that fell into each of 64 contexts.
export function rowTotals(histogram: usize, out: usize): void {
  for (let context: usize = 0; context < 64; context++) {
    const row = histogram + (context << 8);
    let sum = v128.load(row);
    for (let at: usize = 16; at < 256; at += 16) sum = i32x4.add(sum, v128.load(row + at));
    store<i32>(out + (context << 2), i32x4.extract_lane(sum, 0) + i32x4.extract_lane(sum, 1) + i32x4.extract_lane(sum, 2) + i32x4.extract_lane(sum, 3));
  }
}

// 1024 decoding entries from 64 lengths of a complete code (11: the only symbol) and what follows each
// symbol. Codes in order of length, then symbol, first bit lowest. Uses 48 bytes at `work`.
export function decodingRow(lengths: usize, meanings: usize, work: usize, out: usize): void {
  memory.fill(work, 0, 48);
  for (let s: usize = 0; s < 64; s++) {
    const at = work + (<usize>load<u8>(lengths + s) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  // Counts become each length's first code.
  store<u32>(work, 0);
  let code: u32 = 0, before: u32 = 0;
  for (let at = work + 4; at <= work + 40; at += 4) {
    code = (code + before) << 1;
    before = load<u32>(at);
    store<u32>(at, code);
  }
  for (let s: usize = 0; s < 64; s++) {
    const length = <u32>load<u8>(lengths + s);
    if (length == 0) continue;
    const entry = load<u32>(meanings + (s << 2));
    if (length == 11) {
      for (let slot: usize = 0; slot < 1024; slot++) store<u32>(out + (slot << 2), entry);
      return;
    }
    const at = work + (<usize>length << 2), own = load<u32>(at);
    store<u32>(at, own + 1);
    let reversed: u32 = 0;
    for (let bit: u32 = 0; bit < length; bit++) reversed |= ((own >> bit) & 1) << (length - 1 - bit);
    for (let slot = reversed; slot < 1024; slot += 1 << length) store<u32>(out + (<usize>slot << 2), entry + 17 * length);
  }
}
