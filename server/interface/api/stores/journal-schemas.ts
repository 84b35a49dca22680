/** Answers about the journal of a fleet. */
import * as z from "zod";
import { count, timeMs } from "../fields.js";
import type { ValueOf } from "../operation.js";

/** Max facts in one answer. */
export const maxListedFacts = 10_000;

export const listedFact = z
  .looseObject({ position: count, type: z.string(), atMs: timeMs.describe("By the server's clock") })
  .meta({
    id: "ListedFact",
    description:
      "A fact: members by its type (docs/formats.md, Facts), without `tokenHash`; `by` is who caused it",
  });
export type ListedFact = ValueOf<typeof listedFact>;

export const journalPage = z
  .object({ length: count.describe("Number of facts in the journal"), facts: z.array(listedFact) })
  .meta({ id: "JournalPage" });
