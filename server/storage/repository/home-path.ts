/** Finds the folder of a home. Apart from the home itself, so that a command that needs only its path loads no more. */
import { join } from "node:path";
import { requireUserFolder } from "../../../shared/adapters/user-folder.js";

/** The home's path: `--home`, else STEMMA_HOME, else ~/.stemma. @throws USAGE where the user has no folder */
export function homePathOf(
  option: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  userFolder: string | undefined,
): string {
  const named = option ?? environment["STEMMA_HOME"];
  if (named !== undefined && named !== "") return named;
  return join(requireUserFolder(userFolder, "STEMMA_HOME"), ".stemma");
}
