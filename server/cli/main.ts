/** The `stemma` binary: runs the command of its arguments as a process. */
import { exitWithParent } from "../../shared/cli/exit-with-parent.js";
import { guardStandardStreams } from "../../shared/cli/standard-streams.js";
import { runCommandLine } from "./build-program.js";

guardStandardStreams();
exitWithParent();
// The bundle is of a form that cannot await here.
void runCommandLine(process.argv.slice(2)).then((status) => {
  process.exitCode = status;
  if (process.env["STEMMA_EXIT_WITH_STDIN"] === "1") process.stdin.destroy();
});
