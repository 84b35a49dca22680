/** Pictures in memory, and how one becomes a sample's numbers. Sums, products and quotients only. Pure. */

/** Pixels of one picture that are read. */
export const maxPixels = 2 ** 25;

export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue, opacity of each pixel, row by row. */
  readonly data: Uint8Array;
}

/** A picture of a file. */
export interface DecodedPicture extends Pixels {
  /** Bytes of the file behind the picture's end, which are not read: phones put films and second pictures there. */
  readonly behindEnd: number;
}

export interface PictureSize {
  readonly height: number;
  readonly width: number;
  readonly channels: 1 | 3;
}

/** Weights of red, green and blue in a grey value (ITU-R BT.601), in thousandths. */
const greyWeights = [299, 587, 114] as const;

/**
 * A picture as numbers from 0 to 1, [height, width, channels]. Each is the mean over the part of the picture that its
 * pixel covers, so that a picture of another size is scaled; transparent pixels count as black.
 */
export function valuesOf(pixels: Pixels, size: PictureSize): Float32Array {
  const { height, width, channels } = size;
  const colours = new Float64Array(3);
  const rows = coverOf(pixels.height, height);
  const columns = coverOf(pixels.width, width);
  const values = new Float32Array(height * width * channels);
  rows.forEach((row, y) => {
    columns.forEach((column, x) => {
      colours.fill(0);
      let weightSum = 0;
      for (let fromY = row.first; fromY < row.first + row.weights.length; fromY++)
        for (let fromX = column.first; fromX < column.first + column.weights.length; fromX++) {
          const weight =
            (row.weights[fromY - row.first] as number) * (column.weights[fromX - column.first] as number);
          const at = (fromY * pixels.width + fromX) * 4;
          const opacity = (weight * (pixels.data[at + 3] as number)) / 255;
          weightSum += weight;
          for (let channel = 0; channel < 3; channel++)
            colours[channel] = (colours[channel] as number) + opacity * (pixels.data[at + channel] as number);
        }
      const to = (y * width + x) * channels;
      const scale = 255 * weightSum;
      if (channels === 3) colours.forEach((colour, channel) => (values[to + channel] = colour / scale));
      else
        values[to] =
          greyWeights.reduce((sum, weight, channel) => sum + weight * (colours[channel] as number), 0) /
          (1000 * scale);
    });
  });
  return values;
}

/** The pixels that one of the new pixels covers, and how much of each. */
interface Cover {
  readonly first: number;
  readonly weights: readonly number[];
}

/** Lengths are in units of 1 ÷ `to` of an old pixel, so all weights are whole numbers. */
function coverOf(from: number, to: number): readonly Cover[] {
  return Array.from({ length: to }, (_, index) => {
    const [begin, end] = [index * from, (index + 1) * from];
    const first = Math.floor(begin / to);
    const last = Math.ceil(end / to);
    return {
      first,
      weights: Array.from(
        { length: last - first },
        (_each, at) => Math.min(end, (first + at + 1) * to) - Math.max(begin, (first + at) * to),
      ),
    };
  });
}
