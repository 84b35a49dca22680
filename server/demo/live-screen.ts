/**
 * The demo's live screen: a row per vehicle and line on a terminal, plain lines without one. Rendering is
 * pure; drawing writes.
 */
import { formatBytes } from "../../shared/cli/output.js";
import type { DemoState, LineState } from "./demo-state.js";

const width = { device: 11, line: 11, model: 24, saved: 6, wire: 22, doing: 44 } as const;

/** The whole screen as lines of text, without colours. */
export function renderScreen(state: DemoState, title: string): string[] {
  const head = [
    pad("VEHICLE", width.device),
    pad("LINE", width.line),
    pad("RUNS", width.model),
    pad("SAVED", width.saved),
    pad("SENT / FULL", width.wire),
    "NOW",
  ].join(" ");
  const rows = [...state.lines.values()].map((line) =>
    [
      pad(`${state.online.has(line.device) ? "●" : "○"} ${line.device}`, width.device),
      pad(line.line, width.line),
      pad(line.activeVersion, width.model),
      pad(String(line.saved), width.saved),
      pad(
        line.fullBytes === 0 ? "-" : `${formatBytes(line.wireBytes)} / ${formatBytes(line.fullBytes)}`,
        width.wire,
      ),
      describe(line),
    ].join(" "),
  );
  return [title, "", head, ...rows, "", ...state.notes.map((note) => `  ${note}`)];
}

function describe(line: LineState): string {
  if (line.transferTotal === 0) return line.doing.slice(0, width.doing);
  const share = Math.min(1, line.transferred / line.transferTotal);
  const filled = Math.round(share * 16);
  return `sends ${"█".repeat(filled)}${"░".repeat(16 - filled)} ${String(Math.round(share * 100)).padStart(3)} % of ${formatBytes(line.transferTotal)}`;
}

function pad(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text.padEnd(length);
}

/** Draws over itself on a terminal. */
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

  /** A line that stays; above the live rows on a terminal. */
  say(line: string): void {
    if (this.isTerminal && this.#drawn > 0) {
      this.stream.write(`\u001b[${this.#drawn}A\r\u001b[J`);
      this.#drawn = 0;
      this.#last = "";
    }
    // A line of progress may stand where this one goes.
    this.stream.write(this.isTerminal ? `\r\u001b[K${line}\n` : `${line}\n`);
  }
}
