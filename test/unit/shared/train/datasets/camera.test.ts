/** The cameras that make vehicles' images differ: rotation, blur, and the range of pixels. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { applyCamera, cameraOf } from "../../../../../shared/train/datasets/camera.js";

describe("cameras", () => {
  const pixels = Float32Array.from({ length: 49 }, (_, index) => (index === 24 ? 1 : 0));
  const image = { width: 7, height: 7, pixels };
  it("number 0 changes nothing", () => {
    assert.deepEqual(applyCamera(cameraOf(0), image), pixels);
  });
  it("rotate by the angle with the given half tangent", () => {
    const rotated = applyCamera(
      { halfTangent: 1, blurPasses: 0, gain: 1, offset: 0 },
      {
        width: 3,
        height: 3,
        pixels: Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9], (value) => value / 10),
      },
    );
    assert.deepEqual(
      [...rotated],
      [7, 4, 1, 8, 5, 2, 9, 6, 3].map((value) => Math.fround(value / 10)),
      "a quarter turn changes no pixel",
    );
  });
  it("blur without changing the sum of the pixels", () => {
    const blurred = applyCamera({ halfTangent: 0, blurPasses: 2, gain: 1, offset: 0 }, image);
    assert.equal(
      blurred.reduce((sum, value) => sum + value, 0),
      1,
    );
    assert.ok(blurred[24]! < 0.2);
  });
  it("keep pixels between 0 and 1", () => {
    for (let number = 1; number < 40; number++)
      assert.ok(applyCamera(cameraOf(number), image).every((value) => value >= 0 && value <= 1));
  });
});
