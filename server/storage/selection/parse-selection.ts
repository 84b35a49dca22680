/** Parses the text of a selection (docs/selections.md). Pure. */
import { StemmaError } from "../../../shared/errors.js";
import type { Condition, Selection } from "./selection.js";

export const maxSelectionLength = 4096;
const maxDepth = 32;

const unitsMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

interface Token {
  readonly text: string;
  /** The position in the selection where it begins. */
  readonly at: number;
  readonly isQuoted: boolean;
}

/** Words, quoted texts, operators and parentheses; every other character is an error. */
const tokenPattern = /\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z0-9._:*?/@+-]+)|(!=|=|<|>|\(|\)))/y;

/** @throws SELECTION_INVALID */
export function parseSelection(text: string): Selection {
  if (text.length > maxSelectionLength)
    throw new StemmaError(
      "SELECTION_INVALID",
      `The selection has ${text.length} characters, more than ${maxSelectionLength}. Give the devices a label and ` +
        "select by that.",
    );
  const parser = new Parser(text, tokensOf(text));
  const selection = parser.alternatives(0);
  parser.end();
  return selection;
}

function tokensOf(text: string): readonly Token[] {
  const tokens: Token[] = [];
  tokenPattern.lastIndex = 0;
  while (text.slice(tokenPattern.lastIndex).trim() !== "") {
    const from = tokenPattern.lastIndex;
    const match = tokenPattern.exec(text);
    if (match === null) throw invalid(text, from, "this cannot be read");
    const [all, quoted, word, operator] = match;
    const raw = quoted ?? word ?? operator ?? "";
    tokens.push({
      text: quoted === undefined ? raw : raw.slice(1, -1).replace(/\\(.)/g, "$1"),
      at: from + all.length - raw.length,
      isQuoted: quoted !== undefined,
    });
  }
  return tokens;
}

class Parser {
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #next = 0;

  constructor(text: string, tokens: readonly Token[]) {
    this.#text = text;
    this.#tokens = tokens;
  }

  /** Parses selections between "or". */
  alternatives(depth: number): Selection {
    const of = [this.#conjunction(depth)];
    while (this.#takes("or")) of.push(this.#conjunction(depth));
    return of.length === 1 ? (of[0] as Selection) : { kind: "any", of };
  }

  end(): void {
    const left = this.#peek();
    if (left !== undefined) throw this.#invalid(`"and" or "or" is missing before ${quote(left.text)}`);
  }

  #conjunction(depth: number): Selection {
    const of = [this.#part(depth)];
    while (this.#takes("and")) of.push(this.#part(depth));
    return of.length === 1 ? (of[0] as Selection) : { kind: "all", of };
  }

  #part(depth: number): Selection {
    if (depth > maxDepth)
      throw this.#invalid(`more than ${maxDepth} parentheses or "not" are inside each other`);
    if (this.#takes("not")) return { kind: "not", of: this.#part(depth + 1) };
    if (!this.#takes("(")) return this.#condition();
    const inner = this.alternatives(depth + 1);
    if (!this.#takes(")")) throw this.#invalid('")" is missing');
    return inner;
  }

  #condition(): Selection {
    const property = this.#peek();
    if (property === undefined || property.isQuoted || /^[=<>()!]/.test(property.text))
      throw this.#invalid("a condition is missing, such as profile=jetson-orin");
    this.#next++;
    const [name = "", ...rest] = property.text.split(".");
    const part = rest.join(".");
    const operator = ["=", "!=", "<", ">"].find((each) => this.#takes(each));
    if (operator === undefined) {
      if (property.text === "all") return { kind: "all", of: [] };
      if (name !== "label" || part === "")
        throw this.#invalid(`${quote(property.text)} is followed by neither = nor !=`, property);
      return { kind: "label", label: part };
    }
    const value = this.#peek();
    if (value === undefined || (!value.isQuoted && /^[=<>()!]/.test(value.text)))
      throw this.#invalid(`a value is missing after ${property.text}${operator}`);
    this.#next++;
    if (name === "seen" && part === "") return this.#seen(operator, value);
    if (operator === "<" || operator === ">")
      throw this.#invalid(`${operator} compares only the property seen`, property);
    const condition = this.#compared({ property, name, part }, value);
    return operator === "=" ? condition : { kind: "not", of: condition };
  }

  #seen(operator: string, value: Token): Selection {
    const [, number, unit = ""] = /^(\d{1,6})([smhdw])$/.exec(value.text) ?? [];
    if (number === undefined || (operator !== "<" && operator !== ">"))
      throw this.#invalid("write seen<7d (connected in the last seven days) or seen>7d", value);
    const condition: Condition = { kind: "seen", withinMs: Number(number) * (unitsMs[unit] as number) };
    return operator === "<" ? condition : { kind: "not", of: condition };
  }

  #compared(
    { property, name, part }: { readonly property: Token; readonly name: string; readonly part: string },
    value: Token,
  ): Condition {
    switch (name) {
      case "name":
      case "profile":
      case "state":
      case "line":
        if (part === "") return { kind: name, pattern: value.text };
        break;
      case "label":
        if (part !== "") return { kind: "label", label: part, pattern: value.text };
        break;
      case "online":
        if (part !== "") break;
        if (value.text !== "yes" && value.text !== "no")
          throw this.#invalid("online is compared with yes or no", value);
        return { kind: "online", is: value.text === "yes" };
      case "runs":
      case "descends":
        return { kind: name, model: value.text, ...(part === "" ? {} : { line: part }) };
    }
    throw this.#invalid(
      `${quote(property.text)} is no property of a device; there are name, label.KEY, profile, state, line, ` +
        "online, seen, runs, runs.LINE, descends and descends.LINE",
      property,
    );
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#next];
  }

  #takes(word: string): boolean {
    const token = this.#peek();
    if (token?.text !== word || token.isQuoted) return false;
    this.#next++;
    return true;
  }

  #invalid(why: string, at: Token | undefined = this.#peek()): StemmaError {
    return invalid(this.#text, at?.at ?? this.#text.length, why);
  }
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}

const shownCharacters = 60;

function invalid(text: string, at: number, why: string): StemmaError {
  const found = text.slice(at, at + shownCharacters).trim();
  return new StemmaError(
    "SELECTION_INVALID",
    `The selection cannot be read at ${found === "" ? "its end" : quote(found)}: ${why}. Write it as in ` +
      `\`label.region=eu and not profile=generic\` (docs/selections.md).`,
    { at },
  );
}
