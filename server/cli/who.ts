/** The user at the command line, as the machine knows them. */
import { hostname, userInfo } from "node:os";

/**
 * "ann@workshop": what is kept with a hold or a rule, so that the next person knows whom to ask. Nobody has
 * checked it.
 */
export function whoAmI(): string {
  let user = process.env["USER"] ?? "somebody";
  // A container's user may have no entry.
  try {
    user = userInfo().username;
  } catch {
    /* the name from the environment stays */
  }
  return `${user}@${hostname()}`.slice(0, 256);
}
