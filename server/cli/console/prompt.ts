/** Reads lines from a terminal, with completion, history and line editing (node:readline). */
import { createInterface } from "node:readline";
import { completeLine, type CompletionSource } from "./complete-line.js";
import { maxHistory } from "./history.js";

export interface PromptRequest {
  readonly prompt: string;
  /** Newest first. */
  readonly history: readonly string[];
  readonly completes: CompletionSource;
  /** The text that is on the line already: typed while a command ran. */
  readonly typed: string;
  readonly input?: NodeJS.ReadableStream;
  readonly output?: NodeJS.WritableStream;
}
export interface PromptAnswer {
  /** One, or several that were pasted together; none after Ctrl-C. */
  readonly lines: readonly string[];
  /** The beginning of a line after them. */
  readonly typed: string;
  /** Ctrl-D, or the terminal is gone. */
  readonly isEnd: boolean;
}

/** The terminal is readline's only until the answer, so that the command that is run has it to itself. */
export function readPrompt(request: PromptRequest): Promise<PromptAnswer> {
  const { prompt, history, completes, typed, input = process.stdin, output = process.stdout } = request;
  const lines: string[] = [];
  const reader = createInterface({
    input,
    output,
    terminal: true,
    prompt,
    history: [...history],
    historySize: maxHistory,
    removeHistoryDuplicates: true,
    completer: (line: string, callback: (error: Error | null, found: [string[], string]) => void) => {
      completeLine(line, completes).then(
        (found) => {
          // A line that was sent meanwhile is not completed: this would become the beginning of the next one.
          callback(null, lines.length > 0 ? [[], line] : found);
        },
        () => {
          callback(null, [[], line]);
        },
      );
    },
  });
  return new Promise((resolve) => {
    let rest = "";
    let isInterrupted = false;
    reader.on("line", (line) => {
      lines.push(line);
      // The other lines of what was pasted come in the same turn.
      if (lines.length === 1)
        setImmediate(() => {
          rest = reader.line;
          reader.close();
        });
    });
    reader.on("SIGINT", () => {
      isInterrupted = true;
      output.write("^C\n");
      if (reader.line === "") output.write("exit, or Ctrl-D, leaves the console\n");
      reader.close();
    });
    reader.once("close", () => {
      const isEnd = lines.length === 0 && !isInterrupted;
      if (isEnd || rest !== "") output.write("\n");
      resolve({ lines, typed: rest, isEnd });
    });
    reader.prompt();
    if (typed !== "") reader.write(typed);
  });
}
