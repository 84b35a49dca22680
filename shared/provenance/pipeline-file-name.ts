/**
 * The name of the file in which an application finds the input pipeline of an installed version, and how long
 * it may be.
 */
export const pipelineFileName = "pipeline.json";

/** A longer one does not go to devices. It follows from openings, which are no longer than this. */
export const maxPipelineBytes = 1024 * 1024;
