/** The user at the command line, as the operating system names them. */
import { hostname, userInfo } from "node:os";

/**
 * "ann@workshop": kept with a hold or a rule, so that a later reader knows where to ask. It is not verified.
 */
export function currentUser(): string {
  return `${userName()}@${hostname()}`.slice(0, 256);
}

/** "ann (user id 1000)", for messages about rights. */
export function describeUser(): string {
  const id = process.getuid?.();
  return id === undefined ? userName() : `${userName()} (user id ${id})`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container's user may have no entry in the user database.
    return process.env["USER"] ?? "somebody";
  }
}
