/** The models that the worker and the test generate from the same seed. */
import {
  fineTuned,
  seededDraw,
  tensorsOf,
  type NamedTensor,
} from "../../../integration/server/repository/harness.js";

const common = tensorsOf("common", 4, 16);
export function modelOfSeed(seed: string): readonly NamedTensor[] {
  return fineTuned(common, seed, 3);
}
export { seededDraw };
