/**
 * Decides whether a training took samples as the numbers that an application made. Those of a model that was
 * fine-tuned on them are made as its base's: the application had the base when it made them. Pure.
 */
import { valueOf, type OpenedProvenance } from "./openings.js";

export function tookSamplesAsGiven(opened: OpenedProvenance): boolean {
  const data = valueOf(opened, "data");
  const [description] = (Array.isArray(data) ? data : []) as readonly ({
    readonly reader?: unknown;
  } | null)[];
  return description?.reader === "samples";
}
