/**
 * The demo's live screen: on a terminal a row for each line of each vehicle, otherwise plain lines of text.
 * Rendering is pure; drawing writes to the stream. Fits 80 columns.
 */
import { formatBytes } from "../../../shared/cli/output.js";
import type { DemoState, LineState } from "./demo-state.js";

const width = { device: 11, line: 9, model: 21, saved: 5, wire: 17 } as const;
/** Cells of the bar that shows a transfer. */
const barCells = 5;

/** The complete screen as lines of text, without colours. */
export function renderScreen(state: DemoState, title: string): string[] {
  const head = [
    pad("VEHICLE", width.device),
    pad("LINE", width.line),
    pad("RUNS", width.model),
    pad("SAVED", width.saved),
    pad("SENT/FULL", width.wire),
    "NOW",
  ].join(" ");
  const rows = [...state.lines.values()].map((line) =>
    [
      pad(`${state.online.has(line.device) ? "●" : "○"} ${line.device}`, width.device),
      pad(line.line, width.line),
      pad(line.activeVersion, width.model),
      pad(String(line.saved), width.saved),
      pad(
        line.fullBytes === 0 ? "-" : `${formatBytes(line.wireBytes)}/${formatBytes(line.fullBytes)}`,
        width.wire,
      ),
      describe(line),
    ].join(" "),
  );
  return [title, "", head, ...rows, "", ...state.notes.map((note) => `  ${note}`)];
}

function describe(line: LineState): string {
  if (line.transferTotal === 0) return line.doing;
  const share = Math.min(1, line.transferred / line.transferTotal);
  const filled = Math.round(share * barCells);
  return `${"█".repeat(filled)}${"░".repeat(barCells - filled)} ${Math.round(share * 100)} % of ${formatBytes(line.transferTotal)}`;
}

function pad(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text.padEnd(length);
}

/** Redraws itself in place on a terminal. */
export class LiveScreen {
  #drawn = 0;
  #last = "";
  constructor(private readonly stream: NodeJS.WriteStream = process.stderr) {}
  get isTerminal(): boolean {
    return this.stream.isTTY;
  }

  draw(state: DemoState, title: string): void {
    if (!this.isTerminal) return;
    const columns = this.stream.columns || 120;
    const lines = renderScreen(state, title).map((line) => line.slice(0, columns - 1));
    const text = lines.join("\n");
    if (text === this.#last) return;
    this.#last = text;
    this.stream.write(`${this.#drawn > 0 ? `\u001b[${this.#drawn}A` : ""}\r\u001b[J${text}\n`);
    this.#drawn = lines.length;
  }

  /** Leaves the drawn rows where they are: whatever comes next is below them. */
  leave(): void {
    this.#drawn = 0;
    this.#last = "";
  }

  /** Prints a line that stays, above the live rows on a terminal. */
  printLine(line: string): void {
    if (this.isTerminal && this.#drawn > 0) {
      this.stream.write(`\u001b[${this.#drawn}A\r\u001b[J`);
      this.leave();
    }
    // Erases a progress line that may be on this line of the terminal.
    this.stream.write(this.isTerminal ? `\r\u001b[K${line}\n` : `${line}\n`);
  }
}
