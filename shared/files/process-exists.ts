/** Checks whether a process of this machine runs, also one of another user. */
import { systemCode } from "./file-error.js";

export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === "EPERM";
  }
}
