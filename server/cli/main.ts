/** The `stemma` binary: runs the command of its arguments as a process. */
import { exitStatus } from "../../shared/errors.js";
import { exitWithParent } from "../../shared/cli/exit-with-parent.js";
import { runCommandLine } from "./build-program.js";

// A reader that closes the pipe (| head) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(exitStatus.done);
  throw error;
});
exitWithParent();
// The bundle is of a form that cannot await here.
void runCommandLine(process.argv.slice(2)).then((status) => {
  process.exitCode = status;
  if (process.env["STEMMA_EXIT_WITH_STDIN"] === "1") process.stdin.destroy();
});
