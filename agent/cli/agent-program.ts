/** The commands of `stemma agent`: runs one, turns errors into text and exit status. */
import { Command, CommanderError } from "commander";
import { reportError } from "../../shared/cli/command-line.js";
import { fittedHelp } from "../../shared/cli/fit-help.js";
import { describeUser } from "../../shared/adapters/current-user.js";
import { asTyped } from "../../shared/adapters/typed-command.js";
import { versionText } from "../../shared/adapters/program-version.js";
import { exitStatus, isStemmaError, StemmaError } from "../../shared/errors.js";
import { addActivate } from "./commands/activate.js";
import { addBackend } from "./commands/backend.js";
import { addEnrol } from "./commands/enrol.js";
import { addRun } from "./commands/run.js";
import { addSamples } from "./commands/samples.js";
import { addSave } from "./commands/save.js";
import { addStatus } from "./commands/status.js";
import { addStop } from "./commands/stop.js";
import { addSuggest } from "./commands/suggest.js";
import { addTrust } from "./commands/trust.js";
import { addTrain } from "./commands/train.js";
import { addCommonOptions } from "./common-options.js";

function buildProgram(onStatus: (status: number) => void): Command {
  const program = new Command(asTyped("stemma agent")).description(
    "the agent on a device: fine-tunes its models on what it observes, reports them, takes models from its server",
  );
  program
    .version(versionText())
    .exitOverride()
    .configureOutput(fittedHelp)
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .showHelpAfterError("(add --help to see how the command is used)");
  program.addHelpText(
    "after",
    "\nThe device's software submits samples at <home>/run/samples.sock or as files in " +
      "<home>/inbox/<line>/,\nmodels at <home>/run/models.sock, and reads the model to use below " +
      "<home>/current/<line> (see docs/reference/current.md).\n",
  );
  addRun(program, onStatus);
  addEnrol(program);
  addStatus(program);
  addStop(program, onStatus);
  addTrain(program);
  addSamples(program);
  addSave(program);
  addActivate(program);
  addSuggest(program);
  addTrust(program);
  addBackend(program);
  for (const command of program.commands) {
    addCommonOptions(command);
    for (const each of [command, ...command.commands]) {
      each.exitOverride().configureOutput(fittedHelp).description(asTyped(each.description()));
      for (const part of [...each.options, ...each.registeredArguments])
        part.description = asTyped(part.description);
    }
  }
  return program;
}

/** @returns the exit status */
export async function runAgentProgram(argv: readonly string[]): Promise<number> {
  let status: number = exitStatus.done;
  try {
    await buildProgram((ended) => {
      status = ended;
    }).parseAsync([...argv], { from: "user" });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.done : exitStatus.usage;
    const form = argv.includes("json") ? "json" : undefined;
    return reportError(withTypedNames(withUser(error)), form, argv.includes("--verbose"));
  }
}

/** An error whose text says what can be typed here. */
function withTypedNames(error: unknown): unknown {
  if (!isStemmaError(error) || asTyped(error.message) === error.message) return error;
  return new StemmaError(error.code, asTyped(error.message), { cause: error, ...error.details });
}

/** Names the user of this process in an error of missing rights: homes belong to the user of a service. */
function withUser(error: unknown): unknown {
  const system = isStemmaError(error, "FILE_FAILED") ? error.details["system"] : undefined;
  if (!isStemmaError(error) || (system !== "EACCES" && system !== "EPERM")) return error;
  return new StemmaError(
    error.code,
    `${error.message} This command runs as ${describeUser()}: run it as the user that this belongs to, give it to that one (chown -R), or name another home with --home.`,
    { cause: error, ...error.details },
  );
}
