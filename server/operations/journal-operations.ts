/** The operation that lists the facts of a fleet. */
import type { ListedFact } from "../api/journal-schemas.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { OperationsContext } from "../context/operations-context.js";
import { withoutTokenHash } from "./without-secrets.js";

const defaultLimit = 100;

export function journalOperations({ fleets }: OperationsContext): Pick<ServerOperations, "journal"> {
  return {
    journal: async ({ fleet, from, limit = defaultLimit }) => {
      const { journal } = await fleets.get(fleet);
      const { length } = journal.head();
      const facts: ListedFact[] = [];
      const first = from ?? Math.max(0, length - limit);
      for await (const { position, fact } of journal.entries(first)) {
        if (facts.length === limit) break;
        facts.push({ position, ...withoutTokenHash(fact) });
      }
      return { length, facts };
    },
  };
}
