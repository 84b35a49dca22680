/** Seeded mutations of bytes, for hostile-input tests. */
export type Random = () => number;
const below = (random: Random, limit: number): number => Math.floor(random() * limit);
const interesting = [0, 1, 0x7f, 0x80, 0xff, 0x0b, 0x0c, 0x3f];

/**
 * Makes one to four changes: flips bits, sets bytes, truncates, repeats, splices in another message, or
 * inserts lengths of many bytes.
 */
export function mutate(bytes: Uint8Array, other: Uint8Array, random: Random): Uint8Array {
  let result = Buffer.from(bytes);
  for (let changes = 1 + below(random, 4); changes > 0; changes--) {
    const at = below(random, result.length + 1);
    switch (below(random, 8)) {
      case 0:
        if (at < result.length) result[at] = (result[at] as number) ^ (1 << below(random, 8));
        break;
      case 1:
        if (at < result.length) result[at] = interesting[below(random, interesting.length)] as number;
        break;
      case 2:
        result = result.subarray(0, at);
        break;
      case 3:
        result = Buffer.concat([result.subarray(0, at), result.subarray(below(random, at + 1))]);
        break;
      case 4:
        result = Buffer.concat([result.subarray(0, at), other.subarray(below(random, other.length + 1))]);
        break;
      case 5:
        result = Buffer.concat([
          result.subarray(0, at),
          Buffer.of(0xff, 0xff, 0xff, 0x7f),
          result.subarray(at),
        ]);
        break;
      case 6:
        result = Buffer.concat([
          result.subarray(0, at),
          Buffer.from(Array.from({ length: below(random, 20) }, () => below(random, 256))),
          result.subarray(at),
        ]);
        break;
      default:
        result = Buffer.concat([result.subarray(0, at), result.subarray(at + below(random, 8))]);
    }
  }
  return result;
}
