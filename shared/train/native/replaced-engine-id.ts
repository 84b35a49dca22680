/** Takes the place of ../engine-id.ts in the native runner. */
export { runnerFiles as engineFiles, runnerId as engineId } from "./native-class.js";
