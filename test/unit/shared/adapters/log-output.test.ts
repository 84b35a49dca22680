/** Log lines that cannot be written are dropped, counted and reported; a slow reader makes them wait, bounded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LogOutput } from "../../../../shared/adapters/log-output.js";

type Outcome = "all" | "ENOSPC" | "EAGAIN" | number;

/** An output over a fake descriptor; `outcomes` are those of its next writes, then all are written. */
function output(...outcomes: Outcome[]): {
  readonly log: LogOutput;
  readonly written: () => string;
  readonly retry: () => void;
  readonly next: (...more: Outcome[]) => void;
} {
  let text = "";
  const callbacks: (() => void)[] = [];
  const log = new LogOutput({
    write: (bytes) => {
      const outcome = outcomes.shift() ?? "all";
      if (outcome === "ENOSPC" || outcome === "EAGAIN")
        throw Object.assign(new Error(outcome), { code: outcome });
      const part = outcome === "all" ? bytes : bytes.subarray(0, outcome);
      text += Buffer.from(part).toString();
      return part.length;
    },
    report: (lines) => `lost ${lines}\n`,
    later: (callback) => {
      callbacks.push(callback);
    },
  });
  return {
    log,
    written: () => text,
    retry: () => callbacks.shift()?.(),
    next: (...more) => outcomes.push(...more),
  };
}

describe("the output of a log", () => {
  it("drops and counts lines on a full disk, and reports the count when writing works again", () => {
    const { log, written } = output("ENOSPC", "ENOSPC", "ENOSPC");
    for (const line of ["a\n", "b\n", "c\n", "d\n", "e\n"]) log.write(line);
    assert.equal(written(), "lost 3\nd\ne\n");
    assert.equal(log.droppedLines, 3);
  });

  it("begins on a new line after a line that was written in part", () => {
    const { log, written } = output(2, "ENOSPC");
    log.write("abcd\n");
    log.write("next\n");
    assert.equal(written(), "ab\nlost 1\nnext\n");
  });

  it("keeps lines in order while a pipe is full", () => {
    const { log, written, retry, next } = output("EAGAIN", "EAGAIN");
    log.write("a\n");
    log.write("b\n");
    assert.equal(written(), "");
    next(1, "EAGAIN");
    retry();
    retry();
    assert.equal(written(), "a\nb\n");
    assert.equal(log.droppedLines, 0);
  });

  it("keeps at most 1 MiB for a pipe that stays full, and reports what it dropped", () => {
    let isFull = true;
    let text = "";
    const log = new LogOutput({
      write: (bytes) => {
        if (isFull) throw Object.assign(new Error("full"), { code: "EAGAIN" });
        text += Buffer.from(bytes).toString();
        return bytes.length;
      },
      report: (lines) => `lost ${lines}\n`,
      later: () => undefined,
    });
    const line = `${"x".repeat(1023)}\n`;
    for (let count = 0; count < 1500; count++) log.write(line);
    assert.equal(log.droppedLines, 1500 - 1024);
    isFull = false;
    assert.equal(log.flush(), true);
    assert.equal(text.length, 1024 * 1024);
    log.write("after\n");
    assert.equal(text.slice(-16), "lost 476\nafter\n".padStart(16, "\n"));
  });
});
