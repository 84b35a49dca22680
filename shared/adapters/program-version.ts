/** The version of this build, from its package.json. */
import { readFileSync } from "node:fs";

let version: string | undefined;

/** Such as "0.1.0". The file is read once. */
export function programVersion(): string {
  version ??= (
    JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as { version: string }
  ).version;
  return version;
}
