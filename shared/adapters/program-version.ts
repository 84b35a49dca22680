/** The version and the date of this program, from its package.json. */
import { readFileSync, statSync } from "node:fs";

interface Manifest {
  readonly version: string;
  /** ISO 8601; in a package that was made of a checkout, the time of its commit */
  readonly date?: string;
  /** The commit that a package was made of, with "+" where files differed from it. */
  readonly commit?: string;
  /** The id of a package's training engine. */
  readonly engine?: string;
  /** The machine that a single executable is for, such as "linux-x64". */
  readonly target?: string;
}

const path = new URL("../../../package.json", import.meta.url);
let manifest: Manifest | undefined;

/** The file is read once. */
function readManifest(): Manifest {
  manifest ??= JSON.parse(readFileSync(path, "utf8")) as Manifest;
  return manifest;
}

/** Returns the version of this program, such as "0.1.0". */
export function programVersion(): string {
  return readManifest().version;
}

/** Returns what `--version` says: the version, and in a package what it was made of. */
export function versionText(): string {
  const { version, commit, engine, target } = readManifest();
  if (engine === undefined) return version;
  const short = commit?.replace(/^(.{12}).*?(\+?)$/, "$1$2") ?? "unknown";
  const machine = target ?? `any ${process.platform}, here ${process.arch}`;
  return `${version} (commit ${short}, engine ${engine.slice(0, 12)}, Node ${process.versions.node}, ${machine})`;
}

/** A time that this program was made after or at; in a checkout, the last change of its package.json. */
export function programDateMs(): number {
  const { date } = readManifest();
  return date === undefined ? statSync(path).mtimeMs : Date.parse(date);
}
