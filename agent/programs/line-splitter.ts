/** Cuts text that arrives in parts into lines, with bounded memory: what is longer than a line may be is dropped. */

const maxLineCharacters = 64 * 1024;

export class LineSplitter {
  #unfinished = "";
  #isTooLong = false;

  constructor(private readonly onLine: (line: string) => void) {}

  push(part: string): void {
    let start = 0;
    for (let end = part.indexOf("\n"); end >= 0; end = part.indexOf("\n", start)) {
      this.#extend(part.slice(start, end));
      if (!this.#isTooLong) this.onLine(this.#unfinished);
      this.#unfinished = "";
      this.#isTooLong = false;
      start = end + 1;
    }
    this.#extend(part.slice(start));
  }

  #extend(text: string): void {
    if (this.#isTooLong) return;
    if (this.#unfinished.length + text.length > maxLineCharacters) {
      this.#isTooLong = true;
      this.#unfinished = "";
    } else this.#unfinished += text;
  }
}
