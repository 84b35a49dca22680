/** HTML as templates: whatever is put into one is shown as text, unless a template made it. Pure. */
import { printable } from "../../../shared/printable.js";

/** HTML that templates made; nothing else makes any. */
export class Markup {
  readonly #html: string;

  private constructor(html: string) {
    this.#html = html;
  }

  static ofTemplate(strings: TemplateStringsArray, parts: readonly Part[]): Markup {
    return new Markup(
      textsOf(strings)
        .map((text, at) => text + (at < parts.length ? htmlOf(parts[at]) : ""))
        .join(""),
    );
  }

  toString(): string {
    return this.#html;
  }
}

const trimmed = new WeakMap<TemplateStringsArray, readonly string[]>();

/** A template's own texts without the indentation that they have in the source. */
function textsOf(strings: TemplateStringsArray): readonly string[] {
  const known = trimmed.get(strings) ?? strings.map((text) => text.replace(/\s*\n\s*/g, "\n"));
  trimmed.set(strings, known);
  return known;
}

export type Part = Markup | string | number | undefined | readonly Part[];

/** Makes HTML. Attributes are written between double quotes; a part that is undefined is left out. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  return Markup.ofTemplate(strings, parts);
}

function htmlOf(part: Part): string {
  if (part === undefined) return "";
  if (part instanceof Markup) return part.toString();
  if (typeof part === "string" || typeof part === "number") return escaped(String(part));
  return part.map(htmlOf).join("");
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A text as HTML shows it, in content and in quoted attributes; characters that are not seen are spelled out. */
export function escaped(text: string): string {
  return printable(text).replace(/[&<>"']/g, (character) => entities[character] as string);
}

/** The beginning of a text for a place in a long list. */
export function shortened(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  return `${[...text.slice(0, maxCharacters)].slice(0, -1).join("")}…`;
}
