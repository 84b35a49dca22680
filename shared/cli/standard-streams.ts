/**
 * Standard output and standard error that cannot be written: a reader that has closed the pipe, a full disk, a terminal
 * that is gone. A command that was to print something ends; a program that runs on does not end for that.
 */
import { exitStatus } from "../errors.js";
import { fileError } from "../files/file-error.js";

let isRunningOn = false;

/** Call once, before anything is written. */
export function guardStandardStreams(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (isRunningOn) return;
    // A reader that closes the pipe (| head) is not an error.
    if (error.code === "EPIPE") process.exit(exitStatus.done);
    const { message, code } = fileError(error, "write to", "standard output");
    process.stderr.write(`stemma: ${message} [${code}]\n`);
    process.exit(exitStatus.failed);
  });
  // What nobody can read cannot be reported either; without a listener it would end the process.
  process.stderr.on("error", () => undefined);
}

/** Makes this process go on whoever reads: it serves from now on, and only prints for people. */
export function runOnWithoutReaders(): void {
  isRunningOn = true;
}
