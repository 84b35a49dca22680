/** Starts a part of this program with a limit of memory that the kernel enforces (RLIMIT_DATA, by `ulimit -d`). */
import { ownPart, type OwnPart, type ProcessStart } from "../adapters/own-program.js";

/** The shell replaces itself, so that the process that is started is the one that is killed. */
const limitAndRun = 'ulimit -d "$1" && shift && exec "$@"';

/** @param limitMb MiB of private memory that it may write to; code and mapped files do not count */
export function limitedPart(part: OwnPart, limitMb: number): ProcessStart {
  const { program, args, environment } = ownPart(part);
  return {
    program: "/bin/sh",
    args: ["-c", limitAndRun, "sh", String(Math.ceil(limitMb * 1024)), program, ...args],
    environment,
  };
}
