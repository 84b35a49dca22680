/** Takes the place of ../backends/choose.ts in the native runner. */
import type { BackendChoice } from "../training.js";

export const chooseBackend = (): BackendChoice => ({
  backend: "native",
  reason: "the profile asks for native, and a libtensorflow is linked",
});
