/** The version of this build, from its package.json. */
import { readFileSync } from "node:fs";

let known: string | undefined;

/** "0.1.0" and the like; read once. */
export function programVersion(): string {
  known ??= (
    JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as { version: string }
  ).version;
  return known;
}
