/**
 * A JSON parser (RFC 8259) for text from outside. JSON.parse and the libraries around it are not enough: they
 * do not bound depth and number of values before allocating, accept duplicate names and lone surrogates, and
 * change the order of members (JavaScript objects move integer-like names to the front). Does not interpret
 * the values.
 */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = ReadonlyMap<string, Json>;

export interface StrictJsonLimits {
  /** Nesting of arrays and objects; 1 is a flat object. */
  readonly maxDepth: number;
  /** Maximum number of values, containers included. */
  readonly maxValues: number;
  /** True to accept only whole numbers ≥ 0 in their shortest form, up to 2^53 − 1. */
  readonly wholeNumbersOnly?: boolean;
}

/** Called with what is wrong and at which character; throws the caller's own error. */
export type JsonFailure = (reason: string, at: number) => never;

const wholeNumber = /(?:0|[1-9][0-9]*)/y;
const anyNumber = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const plainText = /[^"\\\u0000-\u001f]*/y;
const loneSurrogate = /\p{Surrogate}/u;
const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** True if text can be written as UTF-8: no surrogate without its other half. */
export function isWellFormedText(text: string): boolean {
  return !loneSurrogate.test(text);
}

class Parser {
  at = 0;
  values = 0;
  constructor(
    readonly text: string,
    readonly limits: StrictJsonLimits,
    readonly fail: JsonFailure,
  ) {}

  skipSpace(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.at++;
    }
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  value(depth: number): Json {
    if (++this.values > this.limits.maxValues)
      this.fail(`there are more than ${this.limits.maxValues} values`, this.at);
    const character = this.text[this.at];
    switch (character) {
      case "{":
        return this.object(depth + 1);
      case "[":
        return this.array(depth + 1);
      case '"':
        return this.string();
      case "t":
        return this.literal("true", true);
      case "f":
        return this.literal("false", false);
      case "n":
        return this.literal("null", null);
      default:
        return this.number();
    }
  }

  literal<T>(text: string, value: T): T {
    if (!this.text.startsWith(text, this.at)) this.fail("there is no JSON value", this.at);
    this.at += text.length;
    return value;
  }

  number(): number {
    const start = this.at;
    const token = this.match(this.limits.wholeNumbersOnly === true ? wholeNumber : anyNumber);
    if (token === undefined || token === "")
      return this.fail("there is no JSON value that is allowed here", start);
    const next = this.text[this.at];
    if (next !== undefined && /[0-9.eE+\-A-Za-z]/.test(next))
      this.fail("a number is not written in its shortest form", start);
    const value = Number(token);
    if (!Number.isFinite(value)) this.fail("a number is too large", start);
    if (this.limits.wholeNumbersOnly === true && !Number.isSafeInteger(value))
      this.fail("a number is beyond 2^53 - 1", start);
    return value;
  }

  string(): string {
    const start = this.at++;
    let text = this.match(plainText) ?? "";
    for (;;) {
      const character = this.text[this.at];
      if (character === '"') {
        this.at++;
        break;
      }
      if (character !== "\\")
        this.fail(
          character === undefined ? "a string has no end" : "a string holds a bare control character",
          this.at,
        );
      text += this.escape() + (this.match(plainText) ?? "");
    }
    if (loneSurrogate.test(text)) this.fail("a string holds half a surrogate pair", start);
    return text;
  }

  escape(): string {
    const letter = this.text[this.at + 1] ?? "";
    if (letter === "u") {
      const digits = this.text.slice(this.at + 2, this.at + 6);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail("an escape \\u lacks its four digits", this.at);
      this.at += 6;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    const plain = Object.hasOwn(escapes, letter) ? escapes[letter] : undefined;
    if (plain === undefined) return this.fail("an escape is unknown", this.at);
    this.at += 2;
    return plain;
  }

  checkDepth(depth: number): void {
    if (depth > this.limits.maxDepth) this.fail(`it is nested deeper than ${this.limits.maxDepth}`, this.at);
  }

  array(depth: number): readonly Json[] {
    this.checkDepth(depth);
    const items: Json[] = [];
    this.at++;
    this.skipSpace();
    if (this.text[this.at] === "]") {
      this.at++;
      return items;
    }
    for (;;) {
      this.skipSpace();
      items.push(this.value(depth));
      this.skipSpace();
      const character = this.text[this.at++];
      if (character === "]") return items;
      if (character !== ",") this.fail("an array lacks a comma or its end", this.at - 1);
    }
  }

  object(depth: number): JsonObject {
    this.checkDepth(depth);
    const members = new Map<string, Json>();
    this.at++;
    this.skipSpace();
    if (this.text[this.at] === "}") {
      this.at++;
      return members;
    }
    for (;;) {
      this.skipSpace();
      const start = this.at;
      if (this.text[start] !== '"') this.fail("an object's member has no name", start);
      const name = this.string();
      if (members.has(name)) this.fail(`the name ${JSON.stringify(name.slice(0, 80))} is there twice`, start);
      this.skipSpace();
      if (this.text[this.at++] !== ":") this.fail("an object's member lacks its colon", this.at - 1);
      this.skipSpace();
      members.set(name, this.value(depth));
      this.skipSpace();
      const character = this.text[this.at++];
      if (character === "}") return members;
      if (character !== ",") this.fail("an object lacks a comma or its end", this.at - 1);
    }
  }
}

/** Parses one JSON value with nothing but white space around it. `fail` throws the caller's error. */
export function parseStrictJson(text: string, limits: StrictJsonLimits, fail: JsonFailure): Json {
  const parser = new Parser(text, limits, fail);
  parser.skipSpace();
  const value = parser.value(0);
  parser.skipSpace();
  if (parser.at !== text.length) fail("something follows the JSON value", parser.at);
  return value;
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return value instanceof Map;
}
export function isJsonArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/**
 * The same value with plain objects for maps; a member "__proto__" becomes an own property like any other.
 */
export function plainJson(value: Json): unknown {
  if (isJsonObject(value))
    return Object.fromEntries([...value].map(([name, member]) => [name, plainJson(member)]));
  if (isJsonArray(value)) return value.map(plainJson);
  return value;
}
