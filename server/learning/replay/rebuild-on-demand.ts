/** Loads what makes dropped tensors again when it is first needed: few commands need it, and it loads the engine. */
import type { RebuildVersion } from "../../services/context/open-fleets.js";

export const rebuildVersion: RebuildVersion = async (context, version, signal) => {
  await (await import("./rebuild-tensors.js")).rebuildTensors(context, version, signal);
};
