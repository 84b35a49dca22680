/** Saved queries, as one query uses them: the texts behind names, parsed, and a bound on how many. */
import { isStemmaError } from "../../../shared/errors.js";
import { parseQuery } from "./parse-query.js";
import { queryInvalid, type FailAt } from "./query-errors.js";
import type { Literal, Models } from "./syntax.js";

/** Saved queries that one query may begin from, those that they begin from too. */
const maxUses = 100;

export class SavedQueries {
  #uses = 0;
  /** Names of those that are looked into now. */
  readonly #open = new Set<string>();

  /** @param texts by name */
  constructor(private readonly texts: ReadonlyMap<string, string> = new Map()) {}

  /**
   * Makes something of the query behind a name.
   * @throws QUERY_INVALID, which points at the name
   */
  use<Result>({ value, at }: Literal, fail: FailAt, make: (models: Models, text: string) => Result): Result {
    const name = String(value);
    const text = this.texts.get(name);
    if (text === undefined) return fail(at, "there is no saved query of this name");
    if (this.#open.has(name)) return fail(at, "this saved query would begin from itself");
    if (++this.#uses > maxUses) return fail(at, `more than ${maxUses} saved queries are used`);
    this.#open.add(name);
    try {
      const statement = parseQuery(text);
      if (statement.kind === "evaluate")
        throw queryInvalid(text, 0, "it does not find models, it trains them");
      return make(statement, text);
    } catch (error) {
      if (!isStemmaError(error, "QUERY_INVALID")) throw error;
      const [reason = ""] = error.message.split("\n", 1);
      return fail(
        at,
        `the saved query ${JSON.stringify(name)} cannot be used (${reason.replace(/\.$/, "")})`,
      );
    } finally {
      this.#open.delete(name);
    }
  }
}
