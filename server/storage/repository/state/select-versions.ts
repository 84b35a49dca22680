/** Finds versions by what is true of them, or by their numbers, without a look at any others. */
import type { VersionSummary } from "../answers/version-answers.js";
import { generationKey, sequenceKey, type LinePlace } from "./numbered-versions.js";
import { summaryOf, versionsIn, type VersionTable } from "./version-table.js";
import type { VersionState } from "./version-state.js";

/**
 * - all: retired ones too
 * - unsettled: neither released nor retired
 * - evaluated, replayed: once or more often; retired ones too
 * - dropped: without tensors; retired ones too
 * - of a device; retired ones too
 */
export type Selection =
  "all" | "unsettled" | "evaluated" | "replayed" | "dropped" | { readonly device: string };

export interface SelectionRange {
  /** The position of the journal from which on versions were recorded; absent: all. */
  readonly from?: number;
  /** The position of the journal before which versions were recorded; absent: all. */
  readonly until?: number;
  /** True: the newest first. Default false. */
  readonly reverse?: boolean;
}

/** Versions of a selection, in journal order; the dropped ones in the order in which they were. Read one by one. */
export function* selectVersions(
  table: VersionTable,
  selection: Selection,
  range: SelectionRange = {},
): Iterable<VersionSummary> {
  for (const version of selected(table, selection, range)) {
    const summary = known(table, version);
    if (summary !== undefined) yield summary;
  }
}

function* selected(
  { state, byDevice }: VersionTable,
  selection: Selection,
  { from = 0, until = Infinity, reverse = false }: SelectionRange,
): Iterable<VersionState | undefined> {
  if (typeof selection === "object" || selection === "dropped") {
    const ids =
      selection === "dropped"
        ? reverse
          ? [...state.dropped].reverse()
          : state.dropped
        : reverse
          ? byDevice.reversed(selection.device)
          : byDevice.of(selection.device);
    for (const version of versionsIn(state, ids))
      if (version.position >= from && version.position < until) yield version;
    return;
  }
  if (selection === "all") {
    yield* reverse ? state.versions.reversed(from, until) : state.versions.values(from, until);
    return;
  }
  const positions = state[selection];
  for (const position of reverse ? positions.reversed(from, until) : positions.values(from, until))
    yield state.versions.at(position);
}

/** The version that has this number of a line. */
export function versionNumbered(
  table: VersionTable,
  place: LinePlace,
  sequence: number,
): VersionSummary | undefined {
  return versionAt(table, table.bySequence.get(sequenceKey(place, sequence))?.position);
}

/** The version with the highest number of a line that this generation of the device sent. */
export function headOfLine(
  table: VersionTable,
  place: LinePlace,
  generation: number | undefined,
): VersionSummary | undefined {
  return versionAt(table, table.lineHeads.get(generationKey(place, generation))?.position);
}

function versionAt(table: VersionTable, position: number | undefined): VersionSummary | undefined {
  return known(table, position === undefined ? undefined : table.state.versions.at(position));
}

function known({ records }: VersionTable, version: VersionState | undefined): VersionSummary | undefined {
  const record = version && records.get(version.versionId);
  return version && record && summaryOf(version, record);
}
