/** The console: a prompt on a terminal, else the lines of standard input, one after the other. */
import { createInterface } from "node:readline";
import { exitStatus } from "../../../shared/errors.js";
import type { Output } from "../../../shared/cli/output.js";
import type { BuildProgram } from "../context.js";
import type { ConsoleOptions } from "./console-options.js";
import { fleetNames } from "./fleet-names.js";
import { addToHistory, historyPath, readHistory } from "./history.js";
import { readPrompt } from "./prompt.js";
import { runLine } from "./run-line.js";

/**
 * Runs the prompt until the user leaves. Names of the fleet are asked of the server that `options` name at that moment.
 */
export async function runPrompt(
  options: ConsoleOptions,
  output: Output,
  buildProgram: BuildProgram,
): Promise<void> {
  output.info("Commands of stemma, without that word. Tab completes, help lists, exit leaves.");
  const history = await readHistory();
  let isSaved = true;
  let typed = "";
  for (;;) {
    const names = fleetNames(options.read(), () => performance.now());
    const answer = await readPrompt({
      prompt: `${options.describe()}> `,
      history,
      completes: { names, buildProgram },
      typed,
    });
    if (answer.isEnd) return;
    typed = answer.typed;
    for (const line of answer.lines) {
      if (!line.startsWith(" ") && line.trim() !== "") history.unshift(line);
      const wasSaved = isSaved;
      isSaved = await addToHistory(line);
      if (wasSaved && !isSaved)
        output.info(`stemma: note: ${historyPath() ?? "the history"} cannot be written: no history is kept`);
      if ((await runLine(line, { options, input: "inherit" })).leaves) return;
    }
  }
}

/**
 * @param keepGoing also after a line that failed
 * @returns the exit status: that of the line that failed; with `keepGoing` 5 where one did
 */
export async function runScript(
  lines: NodeJS.ReadableStream,
  {
    options,
    output,
    keepGoing,
  }: { readonly options: ConsoleOptions; readonly output: Output; readonly keepGoing: boolean },
): Promise<number> {
  let number = 0;
  let failed = 0;
  for await (const line of createInterface({ input: lines, crlfDelay: Infinity })) {
    number++;
    const { status, leaves } = await runLine(line, { options, input: "ignore" });
    if (leaves) break;
    if (status === exitStatus.done) continue;
    failed++;
    const after = keepGoing ? "" : "; the lines after it are not run (--keep-going runs them)";
    output.info(`stemma: line ${number} ended with status ${status}: ${line.trim()}${after}`);
    if (!keepGoing) return status;
  }
  return failed === 0 ? exitStatus.done : exitStatus.partly;
}
