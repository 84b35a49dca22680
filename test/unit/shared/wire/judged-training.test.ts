/** The losses of a running training, as a device that is not believed tells them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { trainingCourse } from "../../../../shared/wire/judged-training.js";

describe("the course of a training", () => {
  it("is refused where the log of an evaluation could not be read again", () => {
    const told = { iteration: 5, epoch: 1, loss: 0.5, learningRate: 0.1, validation: null };
    assert.ok(trainingCourse.safeParse({ measurements: [told] }).success);
    for (const iteration of [5.5, -1, 1e300, "5"])
      assert.ok(
        !trainingCourse.safeParse({ measurements: [{ ...told, iteration }] }).success,
        String(iteration),
      );
    assert.ok(
      !trainingCourse.safeParse(
        JSON.parse(`{"measurements":[{"iteration":5,"epoch":1,"loss":1e999,"learningRate":1}]}`),
      ).success,
    );
    assert.ok(!trainingCourse.safeParse({ measurements: [told, told, told] }).success);
  });
});
