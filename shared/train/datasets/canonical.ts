/** Reads samples from their canonical bytes, as they are stored for a replay: one file. No parameters. */
import type { DatasetReader } from "./dataset.js";
import { sampleSetOfBytes } from "./canonical-samples.js";
import { ParameterReader } from "./sample-set.js";

export const canonical: DatasetReader = {
  name: "canonical",
  needsLocation: true,
  async read({ location = "", parameters }, files) {
    new ParameterReader("canonical", parameters).end();
    return sampleSetOfBytes(await files.read(location), location);
  },
};
