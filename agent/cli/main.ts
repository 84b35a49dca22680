/** `stemma agent …`: the agent's own program, so that a device loads nothing of the server. */
import { guardStandardStreams } from "../../shared/cli/standard-streams.js";
import { runAgentProgram } from "./agent-program.js";

guardStandardStreams();
// The bundle is of a form that cannot await here.
void runAgentProgram(process.argv.slice(2)).then((status) => {
  // The broker's client and the training's child process are closed by now. A timer of a library must not keep
  // the program running.
  process.exit(status);
});
