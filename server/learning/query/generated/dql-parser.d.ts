/** What dql-parser.js exports, as far as it is used. */
import type { Statement } from "../syntax.js";

export type Expectation =
  | { readonly type: "literal"; readonly text: string }
  | { readonly type: "other"; readonly description: string }
  | { readonly type: "class" | "any" | "end" };

export class SyntaxError extends Error {
  readonly expected: readonly Expectation[] | null;
  readonly location: { readonly start: { readonly offset: number } };
}

/** @throws SyntaxError */
export function parse(text: string): Statement;
