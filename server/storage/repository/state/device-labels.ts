/** Labels of devices: texts by which people select them. Pure. */
import { StemmaError } from "../../../../shared/errors.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import { whyNoPlace } from "../../selection/place-labels.js";

type Labelled = Extract<Fact, { readonly type: "labelled" }>;
type Labels = Readonly<Record<string, string>>;

const maxLabels = 64;
/** Keys need no quotes in a selection and cannot be mistaken for an operator. */
const keyPattern = /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/;
const maxValueLength = 256;

/** @throws LABEL_INVALID */
export function checkLabels(known: Labels, { device, labels }: Pick<Labelled, "device" | "labels">): void {
  for (const [key, value] of Object.entries(labels)) {
    if (!keyPattern.test(key))
      throw invalid(
        `${JSON.stringify(key.slice(0, 80))} is no key of a label: use letters, digits, ".", "_", "/" and "-", ` +
          "beginning and ending with a letter or digit, at most 63 of them",
        device,
      );
    if (value !== null && (value.length === 0 || value.length > maxValueLength))
      throw invalid(
        `the value of ${key} has ${value.length} characters; 1 to ${maxValueLength} are possible`,
        device,
      );
    const noPlace = value === null ? undefined : whyNoPlace(key, value);
    if (noPlace !== undefined) throw invalid(noPlace, device);
  }
  const after = Object.keys(labelsAfter(known, labels)).length;
  if (after > maxLabels)
    throw invalid(`${device} would have ${after} labels, more than ${maxLabels}; remove some first`, device);
}

/** The labels after a change; null removes one. */
export function labelsAfter(known: Labels, changes: Labelled["labels"]): Labels {
  const after = new Map(Object.entries(known));
  for (const [key, value] of Object.entries(changes))
    if (value === null) after.delete(key);
    else after.set(key, value);
  return Object.fromEntries(after);
}

function invalid(why: string, device: string): StemmaError {
  return new StemmaError("LABEL_INVALID", `Labels were not changed: ${why}.`, { device });
}
