/** Options that every `stemma agent` command takes, and how a command calls the running agent. */
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { requireUserFolder, userFolder } from "../../shared/adapters/user-folder.js";
import { outputForms, type OutputForm } from "../../shared/cli/output.js";
import { StemmaError } from "../../shared/errors.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { callAgent } from "../control/json-line-client.js";
import { readRunFile } from "../home/agent-home.js";

export interface CommonOptions {
  readonly home: string;
  readonly output: OutputForm;
  readonly verbose: boolean;
}

export function addCommonOptions(command: Command): void {
  command
    .option("--home <dir>", "the agent's own folder (or STEMMA_AGENT_HOME; default ~/.stemma-agent)")
    .option("-o, --output <form>", `form of the answer: ${outputForms.join(", ")}`, "table")
    .option("--verbose", "log more (level debug) and print stack traces of errors on stderr", false);
}

/** @throws USAGE when the output form is unknown, or no home is named and the user has no folder */
export function commonOptionsOf(command: Command): CommonOptions {
  const options = command.optsWithGlobals<{ home?: string; output?: string; verbose?: boolean }>();
  const requested = options.output ?? "table";
  const output = outputForms.find((form) => form === requested);
  if (output === undefined)
    throw new StemmaError(
      "USAGE",
      `-o ${requested} is not an output form. Use one of ${outputForms.join(", ")}.`,
    );
  const named = options.home ?? process.env["STEMMA_AGENT_HOME"] ?? "";
  return {
    home: resolve(
      named === "" ? join(requireUserFolder(userFolder(), "STEMMA_AGENT_HOME"), ".stemma-agent") : named,
    ),
    output,
    verbose: options.verbose ?? false,
  };
}

/** Adds the option of commands that take the home's lock. */
export function addTakeOver(command: Command): Command {
  return command.option(
    "--take-over",
    "take the home over from a process that has not renewed its claim for a minute and that you know has ended",
    false,
  );
}

export interface AgentRequest {
  readonly do: string;
  readonly [field: string]: unknown;
}

/**
 * Calls the agent that runs with a home.
 * @throws AGENT_UNREACHABLE, TIMED_OUT, or the agent's own error
 */
export async function callRunningAgent(
  home: string,
  socket: "control" | "samples" | "models",
  request: AgentRequest,
  timeoutMs?: number,
): Promise<unknown> {
  const run = await readRunFile(nodeFiles(), home);
  return await callAgent(run[socket], request, timeoutMs);
}
