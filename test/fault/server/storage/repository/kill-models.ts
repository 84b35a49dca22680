/** The models that the worker and the test generate from the same seed. */
import {
  fineTuned,
  seededDraw,
  tensorsOf,
  type NamedTensor,
} from "../../../../integration/server/storage/repository/harness.js";

const common = tensorsOf("common", 4, 16);
export function modelOfSeed(seed: string): readonly NamedTensor[] {
  return fineTuned(common, seed, 3);
}
/** Every second model has an engine, data, a checkpoint and an optimizer's state. */
export const hasUses = (seed: string): boolean => seed.endsWith("/a");
export { seededDraw };
