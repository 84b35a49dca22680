/**
 * Draws a live screen in place on a terminal's alternate screen, and leaves the terminal as it was. It
 * reports keys and changes of its size, and cleans up however the command ends.
 */
import type { ReadStream, WriteStream } from "node:tty";
import type { Line, ScreenSize } from "./fleet-text.js";

export type Key = "up" | "down" | "page-up" | "page-down" | "first" | "last" | "enter" | "back" | "quit";

const keys: Readonly<Record<string, Key>> = {
  "\u001b[A": "up",
  "\u001bOA": "up",
  k: "up",
  "\u001b[B": "down",
  "\u001bOB": "down",
  j: "down",
  "\u001b[5~": "page-up",
  "\u001b[6~": "page-down",
  "\u001b[H": "first",
  "\u001b[F": "last",
  "\r": "enter",
  "\n": "enter",
  "\u001b[C": "enter",
  "\u001b[D": "back",
  "\u001b": "back",
  "\u007f": "back",
  q: "quit",
  "\u0003": "quit",
  "\u0004": "quit",
};

/** The keys in what the terminal sent; what is not a key is ignored. */
export function keysIn(input: string): readonly Key[] {
  const found: Key[] = [];
  for (const [sequence] of input.matchAll(/\u001b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])?|[^\u001b]/g)) {
    const key = Object.hasOwn(keys, sequence) ? keys[sequence] : undefined;
    if (key !== undefined) found.push(key);
  }
  return found;
}

const styles: Readonly<Record<NonNullable<Line["style"]>, string>> = {
  head: "\u001b[1m",
  selected: "\u001b[7m",
  bad: "\u001b[31m",
  faint: "\u001b[2m",
};

export interface TerminalHandlers {
  onKey(key: Key): void;
  onResize(): void;
}

export class Terminal {
  #drawn = "";
  #isOpen = false;
  readonly #onData: (chunk: Buffer) => void;
  readonly #onResize: () => void;
  readonly #onExit = (): void => {
    this.close();
  };

  constructor(
    private readonly input: ReadStream,
    private readonly output: WriteStream,
    handlers: TerminalHandlers,
    private readonly hasColours: boolean,
  ) {
    this.#onData = (chunk) => {
      for (const key of keysIn(chunk.toString("utf8"))) handlers.onKey(key);
    };
    this.#onResize = () => {
      this.#drawn = "";
      handlers.onResize();
    };
  }

  get size(): ScreenSize {
    return { columns: this.output.columns || 80, rows: this.output.rows || 24 };
  }

  open(): void {
    this.#isOpen = true;
    this.input.setRawMode(true);
    this.input.on("data", this.#onData);
    this.input.resume();
    this.output.on("resize", this.#onResize);
    process.once("exit", this.#onExit);
    this.output.write("\u001b[?1049h\u001b[?25l");
  }

  draw(lines: readonly Line[]): void {
    const text = lines.map(({ text: line, style }) => this.#styled(line, style)).join("\u001b[K\r\n");
    if (text === this.#drawn || !this.#isOpen) return;
    this.#drawn = text;
    this.output.write(`\u001b[H${text}\u001b[K\u001b[J`);
  }

  /** Gives the terminal back as it was. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    process.removeListener("exit", this.#onExit);
    this.output.removeListener("resize", this.#onResize);
    this.input.removeListener("data", this.#onData);
    this.input.setRawMode(false);
    this.input.pause();
    this.output.write("\u001b[?25h\u001b[?1049l");
  }

  #styled(text: string, style: Line["style"]): string {
    const isShown = style === "selected" || this.hasColours;
    return style === undefined || !isShown ? text : `${styles[style]}${text}\u001b[0m`;
  }
}
