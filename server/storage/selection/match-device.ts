/** Decides whether a selection means a device. Pure: what has to be looked up comes in. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Condition, Selection } from "./selection.js";

/** The members of a device that a selection can ask for. */
export interface SelectableDevice {
  readonly device: string;
  readonly profile: string;
  readonly state: string;
  readonly lines: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly online: boolean;
  /** The time of its last connection, milliseconds since 1970; undefined: never. */
  readonly seenAtMs?: number | undefined;
  /** The version that each line runs. */
  readonly active: Readonly<Record<string, { readonly versionId: Hash }>>;
}

interface Lookup {
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** @throws MODEL_NOT_FOUND */
  resolve(model: string): Hash;
  /** The version itself and all that descend from it. */
  familyOf(versionId: Hash): ReadonlySet<Hash>;
}

/** The test of a selection; models are looked up once. @throws MODEL_NOT_FOUND */
export function deviceMatcher(selection: Selection, lookup: Lookup): (device: SelectableDevice) => boolean {
  switch (selection.kind) {
    case "all": {
      const tests = selection.of.map((each) => deviceMatcher(each, lookup));
      return (device) => tests.every((test) => test(device));
    }
    case "any": {
      const tests = selection.of.map((each) => deviceMatcher(each, lookup));
      return (device) => tests.some((test) => test(device));
    }
    case "not": {
      const test = deviceMatcher(selection.of, lookup);
      return (device) => !test(device);
    }
    default:
      return conditionMatcher(selection, lookup);
  }
}

function conditionMatcher(condition: Condition, lookup: Lookup): (device: SelectableDevice) => boolean {
  switch (condition.kind) {
    case "name":
      return matching(condition.pattern, ({ device }) => [device]);
    case "profile":
      return matching(condition.pattern, ({ profile }) => [profile]);
    case "state":
      return matching(condition.pattern, ({ state }) => [state]);
    case "line":
      return matching(condition.pattern, ({ lines }) => lines);
    case "label":
      return matching(condition.pattern ?? "*", ({ labels }) =>
        Object.hasOwn(labels, condition.label) ? [labels[condition.label] as string] : [],
      );
    case "online":
      return ({ online }) => online === condition.is;
    case "seen":
      return ({ online, seenAtMs }) =>
        online || (seenAtMs !== undefined && lookup.nowMs - seenAtMs <= condition.withinMs);
    case "runs":
    case "descends": {
      const versionId = lookup.resolve(condition.model);
      const meant = condition.kind === "runs" ? new Set([versionId]) : lookup.familyOf(versionId);
      const { line } = condition;
      return ({ active }) =>
        Object.entries(active).some(
          ([name, run]) => (line === undefined || name === line) && meant.has(run.versionId),
        );
    }
  }
}

function matching(
  pattern: string,
  textsOf: (device: SelectableDevice) => readonly string[],
): (device: SelectableDevice) => boolean {
  return (device) => textsOf(device).some((text) => matchesPattern(text, pattern));
}

/**
 * True if the whole text matches; * stands for any characters and ? for one. In time at most the product of
 * both lengths, whatever the pattern.
 */
export function matchesPattern(text: string, pattern: string): boolean {
  let [at, next] = [0, 0];
  let star = -1;
  let starAt = 0;
  while (at < text.length) {
    if (next < pattern.length && pattern[next] === "*") {
      star = next++;
      starAt = at;
    } else if (next < pattern.length && (pattern[next] === "?" || pattern[next] === text[at])) {
      at++;
      next++;
    } else if (star >= 0) {
      next = star + 1;
      at = ++starAt;
    } else return false;
  }
  while (pattern[next] === "*") next++;
  return next === pattern.length;
}
