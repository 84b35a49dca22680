/**
 * k-means in float64: first centres, assignment and means. Only + − × ÷ and comparisons in a fixed order, so the bits
 * are the same on every machine. Pure.
 */
import type { Stream } from "../random/streams.js";

/** Rows of numbers, row-major. */
export interface Points {
  readonly values: Float32Array;
  readonly count: number;
  /** Numbers in a row. */
  readonly length: number;
}

function squaredDistance(points: Points, row: number, centres: Float32Array, centre: number): number {
  const { values, length } = points;
  let sum = 0;
  for (let index = 0; index < length; index++) {
    const difference =
      (values[row * length + index] as number) - (centres[centre * length + index] as number);
    sum += difference * difference;
  }
  return sum;
}

/**
 * Chooses rows as the first centres: each with a probability that grows with its squared distance to the centres
 * before it (Arthur and Vassilvitskii, k-means++: The Advantages of Careful Seeding, SODA 2007, section 2.2).
 * @returns centres [clusters, length]
 */
export function firstCentres(points: Points, clusters: number, stream: Stream): Float32Array {
  const { values, count, length } = points;
  const centres = new Float32Array(clusters * length);
  const distances = new Float64Array(count).fill(Infinity);
  let chosen = stream.integer(count);
  for (let centre = 0; centre < clusters; centre++) {
    if (centre > 0) chosen = drawBy(distances, stream);
    centres.set(values.subarray(chosen * length, (chosen + 1) * length), centre * length);
    for (let row = 0; row < count; row++)
      distances[row] = Math.min(distances[row] as number, squaredDistance(points, row, centres, centre));
  }
  return centres;
}

/** Draws an index with a probability in proportion to its weight; where all are 0, any index. */
function drawBy(weights: Float64Array, stream: Stream): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (total === 0) return stream.integer(weights.length);
  const threshold = stream.uniform() * total;
  let sum = 0;
  const found = weights.findIndex((weight) => (sum += weight) > threshold);
  return found === -1 ? weights.length - 1 : found;
}

/** The centre that is nearest to a row, of equally near ones the first, and its squared distance. */
export function nearestCentre(
  points: Points,
  row: number,
  centres: Float32Array,
): { readonly centre: number; readonly distance: number } {
  const count = centres.length / points.length;
  let nearest = 0;
  let least = Infinity;
  for (let centre = 0; centre < count; centre++) {
    const distance = squaredDistance(points, row, centres, centre);
    if (distance < least) {
      least = distance;
      nearest = centre;
    }
  }
  return { centre: nearest, distance: least };
}

/** One pass of Lloyd's algorithm (Lloyd, Least squares quantization in PCM, 1982): rows are added, then means taken. */
export class Assignment {
  readonly #points: Points;
  readonly #centres: Float32Array;
  readonly #sums: Float64Array;
  readonly #counts: Float64Array;
  readonly #distances: Float64Array;
  #error = 0;
  #rows = 0;

  constructor(points: Points, centres: Float32Array) {
    this.#points = points;
    this.#centres = centres;
    this.#sums = new Float64Array(centres.length);
    this.#counts = new Float64Array(centres.length / points.length);
    this.#distances = new Float64Array(points.count);
  }

  /** Assigns the rows `from` to `to` to their nearest centres. */
  add(from: number, to: number): void {
    const { values, length } = this.#points;
    this.#rows += to - from;
    for (let row = from; row < to; row++) {
      const { centre, distance } = nearestCentre(this.#points, row, this.#centres);
      this.#distances[row] = distance;
      this.#error += distance;
      this.#counts[centre] = (this.#counts[centre] as number) + 1;
      for (let index = 0; index < length; index++) {
        const at = centre * length + index;
        this.#sums[at] = (this.#sums[at] as number) + (values[row * length + index] as number);
      }
    }
  }

  /** The mean of the squared differences, over the numbers of the rows that were added. */
  get meanError(): number {
    return this.#error / (this.#rows * this.#points.length);
  }

  /**
   * The mean of the rows of each centre, rounded to float32. A centre without rows takes the place of the row that is
   * farthest from its own; where all rows are at their centres it stays.
   */
  means(): Float32Array {
    const { values, length } = this.#points;
    const centres = this.#centres.slice();
    this.#counts.forEach((count, centre) => {
      if (count > 0)
        for (let index = 0; index < length; index++) {
          const at = centre * length + index;
          centres[at] = (this.#sums[at] as number) / count;
        }
      else {
        const row = farthest(this.#distances);
        if (this.#distances[row] === 0) return;
        this.#distances[row] = 0;
        centres.set(values.subarray(row * length, (row + 1) * length), centre * length);
      }
    });
    return centres;
  }
}

function farthest(distances: Float64Array): number {
  let found = 0;
  distances.forEach((distance, row) => {
    if (distance > (distances[found] as number)) found = row;
  });
  return found;
}

/** The largest factor of the squared distance of rows to their common mean, as an exponent of e. */
const maxExponent = 2 ** 14;
/** Powers of two that float32 has with room to spare. */
const maxScale = 2 ** 100;

/**
 * Returns how sharply the softmax of scores tells centres apart: a power of two, by which no number is
 * rounded. A row is in its cluster to all bits of float32 unless its squared distances to two centres differ
 * by less than about a thousandth of the rows' mean squared distance to their mean.
 */
export function sharpnessOf({ values, count, length }: Points): number {
  const means = new Float64Array(length);
  values.forEach((value, index) => {
    means[index % length] = (means[index % length] as number) + value / count;
  });
  let spread = 0;
  values.forEach((value, index) => {
    const difference = value - (means[index % length] as number);
    spread += (difference * difference) / count;
  });
  let sharpness = 1;
  while (sharpness * spread > maxExponent && sharpness > 1 / maxScale) sharpness /= 2;
  while (spread > 0 && sharpness * spread * 2 <= maxExponent && sharpness < maxScale) sharpness *= 2;
  return sharpness;
}

/** The weights of a model that gives the nearest centre of a row (builders/table-models.ts, clusterModel). */
export interface ClusterWeights {
  /** [length, clusters]: 2 × sharpness × the centres, transposed. */
  readonly kernel: Float32Array;
  /** [clusters]: −sharpness × the squared length of each centre. */
  readonly bias: Float32Array;
  /** The centres, [clusters, length]. */
  readonly centres: Float32Array;
}

/**
 * Makes weights that score the nearest centre highest: the first part of the squared distance |x|² − 2xc +
 * |c|² is the same for all centres, so 2xc − |c|² decides.
 */
export function clusterWeights(centres: Float32Array, length: number, sharpness: number): ClusterWeights {
  const clusters = centres.length / length;
  const kernel = new Float32Array(centres.length);
  const bias = new Float32Array(clusters);
  for (let centre = 0; centre < clusters; centre++) {
    let square = 0;
    for (let index = 0; index < length; index++) {
      const value = centres[centre * length + index] as number;
      kernel[index * clusters + centre] = 2 * sharpness * value;
      square += value * value;
    }
    bias[centre] = -sharpness * square;
  }
  return { kernel, bias, centres };
}
