/**
 * The commands by which a server looks at the losses of a training that it asked a device for, and ends it where it is
 * not worth going on (docs/dql.md). A device that does not know them says so, and trains to its end. Pure.
 */
import * as z from "zod";
import { isHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

export const trainingCourseCommand = "training-course";
export const endTrainingCommand = "end-training";

/** A training is named by its line and the version that it begins from. */
export const endTrainingRequest = z.object({
  line: z.string(),
  base: z.custom<Hash>(isHash, "is not a hash"),
});
export type EndTrainingRequest = z.infer<typeof endTrainingRequest>;

export const trainingCourseRequest = endTrainingRequest.extend({
  /** The step from which measurements count. */
  steps: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
});
export type TrainingCourseRequest = z.infer<typeof trainingCourseRequest>;

const measurement = z.object({
  iteration: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER),
  epoch: z.number(),
  loss: z.number(),
  learningRate: z.number(),
  validation: z.number().nullish(),
});

/** The first loss, and the first loss on validation samples, of the saved state from this step on. */
export const trainingCourse = z.object({ measurements: z.array(measurement).max(2) });
export type TrainingCourse = z.infer<typeof trainingCourse>;
