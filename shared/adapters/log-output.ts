/**
 * Writes log lines, and never stops the program that logs. A line that cannot be written (a full disk, a closed
 * pipe) is dropped and counted, and the next line that can be written is preceded by the count. A pipe whose
 * reader is slow makes lines wait in memory, up to a bound.
 */
import { constants, fstatSync, openSync, writeSync } from "node:fs";

/** Writes bytes now and returns how many were written. Throws an error with a `code`; EAGAIN: not now. */
export type WriteNow = (bytes: Uint8Array) => number;

export interface LogOutputOptions {
  readonly write: WriteNow;
  /** The line that reports this number of dropped lines, with its line feed. */
  readonly report: (lines: number) => string;
  /** Calls back later, when lines wait because the reader is slow. */
  readonly later: (callback: () => void) => void;
}

/** Max bytes of lines that wait for a slow reader; further lines are dropped. */
const maxWaitingBytes = 1024 * 1024;

interface WaitingText {
  readonly bytes: Uint8Array;
  /** Dropped lines that this text reports. */
  readonly reportedLines: number;
  writtenBytes: number;
}

export class LogOutput {
  readonly #options: LogOutputOptions;
  readonly #waiting: WaitingText[] = [];
  #waitingBytes = 0;
  #droppedLines = 0;
  #unreportedLines = 0;
  /** True if the last line was written in part: the next text begins on a line of its own. */
  #isMidLine = false;
  #isRetryDue = false;

  constructor(options: LogOutputOptions) {
    this.#options = options;
  }

  /** Lines that were dropped since the start. */
  get droppedLines(): number {
    return this.#droppedLines;
  }

  /** Writes a line, which ends with a line feed; never throws. */
  write(line: string): void {
    if (this.#waitingBytes > 0 && this.#waitingBytes + line.length > maxWaitingBytes) {
      this.#drop(0);
      return;
    }
    const reportedLines = this.#unreportedLines;
    this.#unreportedLines = 0;
    const report = reportedLines === 0 ? "" : this.#options.report(reportedLines);
    const bytes = Buffer.from(`${this.#isMidLine ? "\n" : ""}${report}${line}`);
    this.#isMidLine = false;
    this.#waiting.push({ bytes, reportedLines, writtenBytes: 0 });
    this.#waitingBytes += bytes.length;
    this.flush();
  }

  /** Writes the lines that wait. Returns whether none waits any more. */
  flush(): boolean {
    for (let text = this.#waiting[0]; text !== undefined; text = this.#waiting[0]) {
      try {
        text.writtenBytes += this.#options.write(text.bytes.subarray(text.writtenBytes));
        if (text.writtenBytes < text.bytes.length) continue;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EAGAIN") {
          this.#retryLater();
          return false;
        }
        this.#isMidLine ||= text.writtenBytes > 0;
        this.#drop(text.reportedLines);
      }
      this.#waiting.shift();
      this.#waitingBytes -= text.bytes.length;
    }
    return true;
  }

  #drop(reportedLines: number): void {
    this.#droppedLines++;
    this.#unreportedLines += reportedLines + 1;
  }

  #retryLater(): void {
    if (this.#isRetryDue) return;
    this.#isRetryDue = true;
    this.#options.later(() => {
      this.#isRetryDue = false;
      this.flush();
    });
  }
}

const standardError = 2;
/** Milliseconds between two attempts to write to a pipe that is full. */
const retryMs = 50;
/** Attempts to write what waits when the process ends. */
const maxLastAttempts = 20;

/** The output on standard error. What waits is written when the process ends, for up to a second. */
export function standardErrorOutput(report: LogOutputOptions["report"]): LogOutput {
  const file = standardErrorFile();
  const output = new LogOutput({
    write: (bytes) => writeSync(file, bytes),
    report,
    later: (callback) => {
      setTimeout(callback, retryMs).unref();
    },
  });
  // Other parts write through process.stderr, where an error without a listener would end the process.
  process.stderr.on("error", () => undefined);
  process.once("exit", () => {
    for (let attempts = 0; !output.flush() && attempts < maxLastAttempts; attempts++)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
  });
  return output;
}

/**
 * A pipe is opened a second time, because writing to a full pipe would block the whole process, and making
 * the inherited descriptor non-blocking would change it for the other processes that share it.
 */
function standardErrorFile(): number {
  try {
    if (!fstatSync(standardError).isFIFO()) return standardError;
    return openSync("/proc/self/fd/2", constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    return standardError;
  }
}

/** An output on a stream, which buffers and reports its own errors. */
export function streamOutput(stream: NodeJS.WritableStream, report: LogOutputOptions["report"]): LogOutput {
  return new LogOutput({
    write: (bytes) => {
      stream.write(bytes);
      return bytes.length;
    },
    report,
    later: setImmediate,
  });
}
