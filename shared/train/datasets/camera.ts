/**
 * What a vehicle's camera does to a picture: rotation, blur, contrast, each camera in its own way. The
 * rotation is rational (cos = (1 − t²)/(1 + t²), sin = 2t/(1 + t²)), so that no sine, whose last bit
 * differs between machines, touches a pixel. Pure; pictures are float32 in 0 … 1, row-major.
 */
import { Streams } from "../../random/streams.js";

export interface Camera {
  /** Tangent of half the angle of rotation. */
  readonly halfTangent: number;
  /** Passes of a 3 × 3 binomial filter. */
  readonly blurPasses: number;
  /** value → (value − 1/2) × gain + 1/2 + offset, kept in 0 … 1. */
  readonly gain: number;
  readonly offset: number;
}

/** Number 0 changes nothing; every other number is a camera of its own. */
export function cameraOf(number: number): Camera {
  if (number === 0) return { halfTangent: 0, blurPasses: 0, gain: 1, offset: 0 };
  const stream = new Streams(String(number), 0).stream("camera");
  const size = stream.uniformBetween(0.16, 0.3);
  const side = stream.integer(2) === 0 ? -1 : 1;
  return {
    halfTangent: side * size,
    blurPasses: 1 + stream.integer(2),
    gain: stream.uniformBetween(0.5, 0.9),
    offset: stream.uniformBetween(-0.15, 0.2),
  };
}

/** The picture as this camera sees it. `width` × `height` numbers in, as many out. */
export function seenThrough(
  camera: Camera,
  picture: Float32Array,
  width: number,
  height: number,
): Float32Array {
  let seen = camera.halfTangent === 0 ? picture.slice() : rotated(picture, width, height, camera.halfTangent);
  for (let pass = 0; pass < camera.blurPasses; pass++) seen = blurred(seen, width, height);
  for (let index = 0; index < seen.length; index++) {
    const value = ((seen[index] as number) - 0.5) * camera.gain + 0.5 + camera.offset;
    seen[index] = Math.min(1, Math.max(0, value));
  }
  return seen;
}

function pixel(picture: Float32Array, width: number, height: number, x: number, y: number): number {
  return x < 0 || y < 0 || x >= width || y >= height ? 0 : (picture[y * width + x] as number);
}

function rotated(picture: Float32Array, width: number, height: number, t: number): Float32Array {
  const cosine = (1 - t * t) / (1 + t * t);
  const sine = (2 * t) / (1 + t * t);
  const centreX = (width - 1) / 2;
  const centreY = (height - 1) / 2;
  const out = new Float32Array(picture.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const fromX = cosine * (x - centreX) + sine * (y - centreY) + centreX;
      const fromY = cosine * (y - centreY) - sine * (x - centreX) + centreY;
      const left = Math.floor(fromX);
      const top = Math.floor(fromY);
      const right = fromX - left;
      const down = fromY - top;
      const upper =
        pixel(picture, width, height, left, top) * (1 - right) +
        pixel(picture, width, height, left + 1, top) * right;
      const lower =
        pixel(picture, width, height, left, top + 1) * (1 - right) +
        pixel(picture, width, height, left + 1, top + 1) * right;
      out[y * width + x] = upper * (1 - down) + lower * down;
    }
  }
  return out;
}

/** The binomial filter 1 2 1 in both directions, over 16. */
function blurred(picture: Float32Array, width: number, height: number): Float32Array {
  const out = new Float32Array(picture.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let sum = 0;
      for (let dy = -1; dy <= 1; dy++)
        for (let dx = -1; dx <= 1; dx++)
          sum += pixel(picture, width, height, x + dx, y + dy) * (2 - Math.abs(dx)) * (2 - Math.abs(dy));
      out[y * width + x] = sum / 16;
    }
  }
  return out;
}
