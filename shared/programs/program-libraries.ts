/**
 * The shared libraries of a user's own program, in the order in which they were loaded: read from the lists that its
 * processes leave (shared/determinism/recorder/libraries.c), which may be hostile, and compared with those of another
 * run.
 */
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { defined } from "../defined.js";
import { openRegularFile } from "../files/regular-file.js";
import type { CanonicalValue } from "../model/canonical-json.js";
import { counted, printable } from "../printable.js";
import type { LoadedLibraries, LoadedLibrary } from "../provenance/provenance.js";
import { isHash, Sha256, sha256 } from "../tensor/hash.js";

/** The bytes of all lists of a run; libraries.c adds none beyond. */
export const maxListBytes = 2 ** 20;
const maxPrograms = 16;
const maxLibraries = 1024;
const maxName = 128;
/** The bytes of libraries that are hashed for one run. */
const maxHashedBytes = 4 * 2 ** 30;

/** A process that ended, as it lists itself. */
interface ListedProcess {
  readonly pid: number;
  readonly program: string;
  /** Paths. */
  readonly libraries: readonly string[];
}

/** Reads the lists of all processes; one that was cut is left out. */
export function decodeLists(text: string): readonly ListedProcess[] {
  if (text.length > maxListBytes) return [];
  return text
    .split("\nE\n")
    .slice(0, -1)
    .flatMap((block): ListedProcess[] => {
      // A list that was cut has no end, so that the next one begins inside it.
      const lines = block.split("\n");
      const from = lines.findLastIndex((line) => line.startsWith("P"));
      const [, pid, program] = /^P(\d{1,10}) (.*)$/.exec(lines[from] ?? "") ?? [];
      if (pid === undefined || program === undefined) return [];
      const libraries = lines.slice(from + 1).filter((line) => line.startsWith("L/"));
      return [{ pid: Number(pid), program, libraries: libraries.map((line) => line.slice(1)) }];
    });
}

/**
 * The libraries of a run, as a version records them: first those of the program itself, then those of each other
 * program that it started, in the order of their names, since processes run in no fixed order.
 * @param listed the lists of its processes
 * @param pid of the program
 * @param isOwn true of the libraries by which the run was watched
 * @returns undefined where the program's own list is not there
 */
export async function librariesOf(
  listed: readonly ListedProcess[],
  { pid, isOwn }: { readonly pid: number; readonly isOwn: (path: string) => boolean },
): Promise<readonly LoadedLibraries[] | undefined> {
  const first = listed.find((each) => each.pid === pid);
  if (first === undefined) return undefined;
  const others = new Map(listed.filter((each) => each !== first).map((each) => [keyOf(each), each] as const));
  others.delete(keyOf(first));
  const sorted = [...others.values()].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  const room = { libraries: maxLibraries, bytes: maxHashedBytes };
  const found: LoadedLibraries[] = [];
  for (const { program, libraries } of [first, ...sorted].slice(0, maxPrograms)) {
    const rows: LoadedLibrary[] = [];
    for (const path of libraries) {
      if (isOwn(path) || room.libraries === 0) continue;
      room.libraries--;
      rows.push({ name: shortName(path), ...defined({ sha256: await hashOfLibrary(path, room) }) });
    }
    found.push({ program: shortName(program), libraries: rows });
  }
  return found;
}

const keyOf = ({ program, libraries }: ListedProcess): string => [program, ...libraries].join("\n");

/** Names come before folders, which are others on another machine. */
const orderOf = (listed: ListedProcess): string =>
  [listed.program, ...listed.libraries]
    .map((path) => basename(path))
    .concat(keyOf(listed))
    .join("\n");

function shortName(path: string): string {
  return cut(basename(path), maxName);
}

/** The beginning of a text; half a character at its end, which could not be stored, becomes another one. */
function cut(text: string, length: number): string {
  return Buffer.from(text.slice(0, length)).toString();
}

/** Hashes of libraries, which are large and seldom change, by the state of their file. */
const known = new Map<string, { readonly state: string; readonly hash: string }>();
const maxKnown = 4096;

/** undefined where the file is gone, is not a regular one, or is more than there is room for. */
async function hashOfLibrary(path: string, room: { bytes: number }): Promise<string | undefined> {
  try {
    const { ino, dev, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    if (Number(size) > room.bytes) return undefined;
    room.bytes -= Number(size);
    const state = [dev, ino, size, mtimeNs, ctimeNs].join(" ");
    const before = known.get(path);
    if (before?.state === state) return before.hash;
    const hash = await hashRegularFile(path, Number(size));
    if (known.size >= maxKnown) known.clear();
    known.set(path, { state, hash });
    return hash;
  } catch {
    // Not known is stated as not known.
    return undefined;
  }
}

async function hashRegularFile(path: string, size: number): Promise<string> {
  const { file, requireUnchanged } = await openRegularFile(path, { followLinks: true });
  try {
    const hash = new Sha256();
    const piece = new Uint8Array(2 ** 20);
    for (let at = 0; at < size;) {
      const read = await file.read(piece.subarray(0, Math.min(piece.length, size - at)), at);
      if (read === 0) throw new Error(`${path} ended early`);
      hash.update(piece.subarray(0, read));
      at += read;
    }
    await requireUnchanged();
    return hash.digest();
  } finally {
    await file.close();
  }
}

/** Reads the member of a story, which may be hostile; undefined where it is malformed. */
export function readLibraries(value: CanonicalValue): readonly LoadedLibraries[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > maxPrograms) return undefined;
  let left = maxLibraries;
  const read: LoadedLibraries[] = [];
  for (const item of value as readonly CanonicalValue[]) {
    const { program, libraries } = membersOf(item);
    if (!isName(program) || !Array.isArray(libraries) || libraries.length > left) return undefined;
    left -= libraries.length;
    const rows: LoadedLibrary[] = [];
    for (const row of libraries as readonly CanonicalValue[]) {
      const { name, sha256: hash } = membersOf(row);
      if (!isName(name) || (hash !== undefined && !isHash(hash))) return undefined;
      rows.push({ name, ...defined({ sha256: hash }) });
    }
    read.push({ program, libraries: rows });
  }
  return read;
}

function isName(value: CanonicalValue | undefined): value is string {
  return typeof value === "string" && value.length <= maxName;
}

function membersOf(value: CanonicalValue): Readonly<Record<string, CanonicalValue | undefined>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, CanonicalValue | undefined>>)
    : {};
}

/** The first place in which the libraries of two runs differ. */
export interface LibraryDifference {
  readonly program: string;
  /** Counted from 1. */
  readonly place: number;
  /** The names there; undefined: that run has none in this place. */
  readonly recorded: string | undefined;
  readonly here: string | undefined;
}

/** @returns undefined where the same libraries were loaded in the same order, as far as their content is known */
export function firstLibraryDifference(
  recorded: readonly LoadedLibraries[],
  here: readonly LoadedLibraries[],
): LibraryDifference | undefined {
  for (let at = 0; at < Math.max(recorded.length, here.length); at++) {
    const [own, other] = [recorded[at], here[at]];
    if (own?.program !== other?.program)
      return { program: "", place: at + 1, recorded: own?.program, here: other?.program };
    const [before, now] = [own?.libraries ?? [], other?.libraries ?? []];
    for (let place = 0; place < Math.max(before.length, now.length); place++)
      if (differs(before[place], now[place]))
        return {
          program: own?.program ?? "",
          place: place + 1,
          recorded: before[place]?.name,
          here: now[place]?.name,
        };
  }
  return undefined;
}

/**
 * The first library in which programs that both runs started differ: it may be the cause of what they gave. A program
 * that only one run started is what that run did.
 */
export function libraryThatMatters(
  recorded: readonly LoadedLibraries[] = [],
  here: readonly LoadedLibraries[] = [],
): string | undefined {
  const unmatched = [...here];
  for (const own of recorded) {
    const at = unmatched.findIndex(({ program }) => program === own.program);
    const [other] = at < 0 ? [] : unmatched.splice(at, 1);
    const difference = other && firstLibraryDifference([own], [other]);
    if (difference !== undefined) return printable(describeLibraryDifference(difference));
  }
  return undefined;
}

function differs(a: LoadedLibrary | undefined, b: LoadedLibrary | undefined): boolean {
  const isSameContent = a?.sha256 === undefined || b?.sha256 === undefined || a.sha256 === b.sha256;
  return a?.name !== b?.name || !isSameContent;
}

/** The difference in words; names are not made printable. */
export function describeLibraryDifference({ program, place, recorded, here }: LibraryDifference): string {
  const what = program === "" ? `program ${place} of the run` : `library ${place} of ${program}`;
  return recorded === here
    ? `${what}, ${recorded ?? ""}, has other content`
    : `${what} is ${here ?? "none"}, and was ${recorded ?? "none"}`;
}

const maxOrderText = 8192;

/** The order as one text, for an environment: a long one ends with the hash of all of it. */
export function orderText(loaded: readonly LoadedLibraries[]): string {
  const [own, ...others] = loaded.map(({ libraries }) => libraries.map(({ name }) => name).join(", "));
  const text = [own, ...others.map((names, i) => `${loaded[i + 1]?.program ?? ""}: ${names}`)].join("; ");
  return text.length <= maxOrderText ? text : `${cut(text, maxOrderText)} … ${sha256(text)}`;
}

/** The libraries of two runs, compared for people. */
export interface ComparedLibraries {
  readonly verdict: "equal" | "different" | "not recorded";
  readonly text: string;
}

/**
 * @param recorded those of the first run; undefined: they were not recorded
 * @param where the names of the two runs, as "not recorded" is followed by them
 */
export function compareLibraries(
  recorded: readonly LoadedLibraries[] | undefined,
  here: readonly LoadedLibraries[] | undefined,
  [first, second]: readonly [string, string],
): ComparedLibraries {
  if (recorded === undefined || here === undefined)
    return { verdict: "not recorded", text: `not recorded ${recorded === undefined ? first : second}` };
  const difference = firstLibraryDifference(recorded, here);
  if (difference !== undefined)
    return { verdict: "different", text: printable(describeLibraryDifference(difference)) };
  const { libraries, withoutContent } = countLibraries(recorded, here);
  const order = `${counted(libraries, "library", "libraries")} in the same order`;
  return {
    verdict: "equal",
    text:
      withoutContent === 0
        ? `${order} and with the same content`
        : `${order}; content of ${withoutContent} not compared`,
  };
}

/** Counts the libraries of two runs that do not differ, and those whose content one of them does not know. */
function countLibraries(
  recorded: readonly LoadedLibraries[],
  here: readonly LoadedLibraries[],
): { readonly libraries: number; readonly withoutContent: number } {
  const all = recorded.flatMap(({ libraries }) => libraries);
  const others = here.flatMap(({ libraries }) => libraries);
  const withoutContent = all.filter(
    ({ sha256: hash }, i) => hash === undefined || others[i]?.sha256 === undefined,
  );
  return { libraries: all.length, withoutContent: withoutContent.length };
}
