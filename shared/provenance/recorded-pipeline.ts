/**
 * Makes the input pipeline that a version's record describes, as a file beside the model (ME8). The bytes are
 * the same wherever they are made, so that a release can name them by their hash. Pure.
 */
import { isStemmaError } from "../errors.js";
import { objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { encodePipeline, inputPipelineOf } from "../train/datasets/input-pipeline.js";
import { valueOf, type OpenedProvenance } from "./openings.js";
import { maxPipelineBytes } from "./pipeline-file-name.js";
import { plainOf } from "./plain-value.js";

export interface RecordedPipeline {
  /** Id of the object of kind "pipeline". */
  readonly id: Hash;
  readonly bytes: Uint8Array;
}

/** Reads the recorded pipeline; undefined where the record describes none, it was redacted, or is too long. */
export function recordedPipeline(opened: OpenedProvenance): RecordedPipeline | undefined {
  try {
    const data = plainOf(valueOf(opened, "data"));
    const bytes = encodePipeline(inputPipelineOf(Array.isArray(data) ? data[0] : undefined));
    return bytes.length > maxPipelineBytes ? undefined : { id: objectId("pipeline", bytes), bytes };
  } catch (error) {
    if (isStemmaError(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}
