/** The queries of a fleet that have names, by which other queries begin from them (docs/dql.md). */
import { StemmaError } from "../../../shared/errors.js";
import { notThere, quoted } from "../../../shared/missing-errors.js";
import type { RepositoryContext } from "./context.js";
import { appendFacts } from "./state/append-facts.js";
import type { SavedQuery } from "./state/state.js";

const maxSavedQueries = 1000;

export function savedQueries({ state }: Pick<RepositoryContext, "state">): readonly SavedQuery[] {
  return [...state.queries.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Gives a query a name; one that had it before has it no more.
 * @param text that was parsed. @throws NAME_INVALID, QUOTA_EXCEEDED where there are too many
 */
export async function saveQuery(context: RepositoryContext, name: string, text: string): Promise<void> {
  const { queries } = context.state;
  if (queries.get(name)?.text === text) return;
  if (!queries.has(name) && queries.size >= maxSavedQueries)
    throw new StemmaError(
      "QUOTA_EXCEEDED",
      `This fleet has ${maxSavedQueries} saved queries, the most that it may have. Delete one with \`stemma query delete NAME\`.`,
    );
  await appendFacts(context, [{ type: "query", atMs: context.clock.now(), name, change: "saved", text }]);
}

/** @throws NOT_FOUND */
export async function deleteQuery(context: RepositoryContext, name: string): Promise<void> {
  if (!context.state.queries.has(name)) throw noSavedQuery(name);
  await appendFacts(context, [{ type: "query", atMs: context.clock.now(), name, change: "deleted" }]);
}

const noSavedQuery = (name: string): StemmaError =>
  notThere("NOT_FOUND", `There is no saved query ${quoted(name)}`, "query list", { name: name.slice(0, 80) });
