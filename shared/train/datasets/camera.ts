/**
 * Simulates a vehicle's camera, which rotates and blurs an image and changes its contrast. The rotation is
 * rational (cos = (1 − t²)/(1 + t²), sin = 2t/(1 + t²)), because the last bit of Math.sin differs between
 * machines. Pure; pixels are float32 from 0 to 1, row-major.
 */
import { Streams } from "../../random/streams.js";

interface Camera {
  /** Tangent of half the angle of rotation. */
  readonly halfTangent: number;
  /** Passes of a 3 × 3 binomial filter. */
  readonly blurPasses: number;
  /** value → (value − 1/2) × gain + 1/2 + offset, kept in 0 … 1. */
  readonly gain: number;
  readonly offset: number;
}

/** The camera with this number. Number 0 changes nothing; all others differ. */
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

interface Image {
  readonly width: number;
  readonly height: number;
  /** width × height numbers. */
  readonly pixels: Float32Array;
}

/** The pixels of the image as this camera records it. */
export function applyCamera(camera: Camera, image: Image): Float32Array {
  let pixels = camera.halfTangent === 0 ? image.pixels.slice() : rotated(image, camera.halfTangent);
  for (let pass = 0; pass < camera.blurPasses; pass++) pixels = blurred({ ...image, pixels });
  for (let index = 0; index < pixels.length; index++) {
    const value = ((pixels[index] as number) - 0.5) * camera.gain + 0.5 + camera.offset;
    pixels[index] = Math.min(1, Math.max(0, value));
  }
  return pixels;
}

/** A pixel of the image; 0 outside. */
function pixel({ width, height, pixels }: Image, x: number, y: number): number {
  return x < 0 || y < 0 || x >= width || y >= height ? 0 : (pixels[y * width + x] as number);
}

/** Rotates by the angle with the half tangent t, with bilinear interpolation. */
function rotated(image: Image, t: number): Float32Array {
  const { width, height } = image;
  const cosine = (1 - t * t) / (1 + t * t);
  const sine = (2 * t) / (1 + t * t);
  const centreX = (width - 1) / 2;
  const centreY = (height - 1) / 2;
  const out = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const fromX = cosine * (x - centreX) + sine * (y - centreY) + centreX;
      const fromY = cosine * (y - centreY) - sine * (x - centreX) + centreY;
      const left = Math.floor(fromX);
      const top = Math.floor(fromY);
      const right = fromX - left;
      const down = fromY - top;
      const upper = pixel(image, left, top) * (1 - right) + pixel(image, left + 1, top) * right;
      const lower = pixel(image, left, top + 1) * (1 - right) + pixel(image, left + 1, top + 1) * right;
      out[y * width + x] = upper * (1 - down) + lower * down;
    }
  }
  return out;
}

/** The binomial filter 1 2 1 in both directions, divided by 16. */
function blurred(image: Image): Float32Array {
  const { width, height } = image;
  const out = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let sum = 0;
      for (let dy = -1; dy <= 1; dy++)
        for (let dx = -1; dx <= 1; dx++)
          sum += pixel(image, x + dx, y + dy) * (2 - Math.abs(dx)) * (2 - Math.abs(dy));
      out[y * width + x] = sum / 16;
    }
  }
  return out;
}
