/** Operations on the journal of a fleet: its facts, its signed head, proofs about it. */
import { StemmaError } from "../../../shared/errors.js";
import type { SignedHead } from "../../../shared/journal/journal.js";
import { logLeaf, toHash } from "../../../shared/journal/merkle-log.js";
import { journalShorter, nameOneOf } from "../../../shared/missing-errors.js";
import type { ShownHead } from "../../../shared/trust/signatures.js";
import type { ListedFact } from "../../interface/api/stores/journal-schemas.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { changesToShow } from "../../access/identity/key-changes.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { withoutTokenHash } from "../../services/context/without-secrets.js";
import { counted } from "../../../shared/printable.js";

const defaultLimit = 100;
/** Facts of one answer with whole entries, and their bytes, at most. */
const entryPage = { defaultLimit: 1000, bytes: 8 * 1024 * 1024 };

type JournalOperations = Pick<ServerOperations, "journal" | "journalHead" | "proveFact" | "journalEntries">;

export function journalOperations({ fleets, home }: OperationsContext): JournalOperations {
  const keyChanges = changesToShow(home.keyChanges);
  const shown = (head: SignedHead): ShownHead => (keyChanges.length === 0 ? head : { ...head, keyChanges });
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
    journalHead: async ({ fleet, from }) => {
      const { journal } = await fleets.get(fleet);
      const head = shown(journal.signedHead());
      if (from === undefined) return { head, consistency: null };
      requireLength(head.length, from);
      return { head, consistency: [...journal.proveStart(from, head.length)] };
    },
    proveFact: async ({ fleet, position: asked, model, length: askedLength }) => {
      const repository = await fleets.get(fleet);
      const { journal } = repository;
      const position = positionOf(repository, asked, model);
      const head = shown(journal.signedHead());
      const length = askedLength ?? head.length;
      requireLength(head.length, length);
      if (position >= length)
        throw new StemmaError(
          "NOT_FOUND",
          `The journal of ${counted(length, "fact")} has no fact ${position}: it came later. Ask with a greater length, or without one.`,
        );
      const entry = await journal.readEntry(position);
      const fact = Buffer.from(entry).toString("utf8");
      return {
        position,
        fact: hasSecret(fact) ? null : fact,
        leaf: toHash(logLeaf(entry)),
        log: { length, root: journal.rootAt(length) },
        inclusion: [...journal.proveEntry(position, length)],
        head,
        consistency: [...journal.proveStart(length, head.length)],
      };
    },
    journalEntries: async ({ fleet, from, limit = entryPage.defaultLimit }) => {
      const { journal } = await fleets.get(fleet);
      const head = shown(journal.signedHead());
      const facts: string[] = [];
      let bytes = 0;
      for (let at = from; at < head.length && facts.length < limit && bytes < entryPage.bytes; at++) {
        const entry = await journal.readEntry(at);
        bytes += entry.length;
        facts.push(Buffer.from(entry).toString("utf8"));
      }
      return { head, facts };
    },
  };
}

/** @throws USAGE, MODEL_NOT_FOUND */
function positionOf(
  repository: FleetRepository,
  position: number | undefined,
  model: string | undefined,
): number {
  if (position !== undefined && model === undefined) return position;
  if (model !== undefined && position === undefined) return repository.resolve(model).position;
  throw nameOneOf("the position of a fact", "a model");
}

/** @throws NOT_FOUND */
function requireLength(length: number, asked: number): void {
  if (asked > length) throw journalShorter(length, asked);
}

function hasSecret(fact: string): boolean {
  return "tokenHash" in (JSON.parse(fact) as object);
}
