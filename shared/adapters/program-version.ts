/** The version and the date of this program, from its package.json. */
import { readFileSync, statSync } from "node:fs";

interface Manifest {
  readonly version: string;
  /** ISO 8601; in a package that was made of a checkout, the time of its commit */
  readonly date?: string;
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

/** A time that this program was made after or at; in a checkout, the last change of its package.json. */
export function programDateMs(): number {
  const { date } = readManifest();
  return date === undefined ? statSync(path).mtimeMs : Date.parse(date);
}
