/** Versions as lists of pages show them, of what operations answer. Pure. */
import { detailsOf, type Described } from "../repository/current-version.js";
import { factsOf } from "../repository/facts-of-version.js";
import { coursesOf, figure } from "../repository/metric-course.js";
import type { ListedVersion } from "./version-list.js";

export function listedVersion(described: Described): ListedVersion {
  const { versionId, name, version, state, tags, held, record, storedBytes } = described;
  return {
    versionId,
    name,
    version,
    state,
    tags,
    held,
    device: record.device,
    line: record.line,
    savedAtMs: record.savedAtMs,
    bases: record.bases,
    after: record.successorOf === undefined ? [] : [record.successorOf],
    storedBytes,
    ...factsOfListed(described),
  };
}

/** The members of a listed version that only its description has. */
export function factsOfListed(described: Described): Pick<ListedVersion, "subject" | "facts" | "figures"> {
  const { message } = detailsOf(described.metadata ?? {});
  return {
    subject: message?.split("\n", 1)[0],
    facts: factsOf(described),
    figures: new Map(
      coursesOf(described.measurements ?? []).map(({ name, last }) => [name, figure(last.value)]),
    ),
  };
}
