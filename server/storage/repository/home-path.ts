/** Finds the folder of a home. Apart from the home itself, so that a command that needs only its path loads no more. */
import { join } from "node:path";

/** The home's path: `--home`, else STEMMA_HOME, else ~/.stemma. */
export function homePathOf(
  option: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  userHome: string,
): string {
  const named = option ?? environment["STEMMA_HOME"];
  return named === undefined || named === "" ? join(userHome, ".stemma") : named;
}
