/** Decides which facts a webhook gets next, and where it goes on. Reads a journal; knows no transport and no clock. */
import { logLeaf, toHash } from "../../../shared/journal/merkle-log.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { factCodec } from "../../storage/repository/state/fact-codec.js";
import { withoutTokenHash } from "../context/without-secrets.js";
import type { Cursor, KnownFact, Webhook } from "./webhook-store.js";

/** The part of a fleet's journal that is needed. */
export interface ReadJournal {
  head(): { readonly length: number };
  readEntry(position: number): Promise<Uint8Array>;
  /** A fact, with hashes in hex. */
  decode(entry: Uint8Array): { readonly type: string };
}

export function journalOfFleet({ journal }: Pick<FleetRepository, "journal">): ReadJournal {
  return {
    head: () => journal.head(),
    readEntry: (position) => journal.readEntry(position),
    decode: (entry) => factCodec.decode(entry),
  };
}

export interface Delivery {
  /** Facts that the webhook takes, each with its position. Empty: nothing to send, but the cursor moves. */
  readonly facts: readonly object[];
  /** Position of the first fact that was looked at. */
  readonly from: number;
  /** The webhook's position once these facts were delivered. */
  readonly next: Cursor;
}

/** Facts of one request, and their bytes, at most. */
export const deliveryLimits = { facts: 100, bytes: 256 * 1024, looked: 10_000 };

/**
 * The next facts for a webhook; undefined where it has them all.
 * @param cursor undefined: from the beginning
 */
export async function nextDelivery(
  { types }: Pick<Webhook, "types">,
  journal: ReadJournal,
  cursor: Cursor | undefined,
): Promise<Delivery | undefined> {
  const { from, restored: before } = await startOf(journal, cursor);
  const { length } = journal.head();
  const facts: object[] = [];
  let bytes = 0;
  let position = from;
  let leaf: string | undefined;
  let restored = before;
  while (position < length && position - from < deliveryLimits.looked) {
    if (facts.length === deliveryLimits.facts) break;
    const { entry, fact } = await readFact(journal, position);
    if (types === undefined || types.includes(fact.type)) {
      if (facts.length > 0 && bytes + entry.length > deliveryLimits.bytes) break;
      bytes += entry.length;
      facts.push({ position, ...withoutTokenHash(fact) });
    }
    leaf = leafOf(entry);
    if (fact.type === "restored") restored = { position, leaf };
    position++;
  }
  if (leaf === undefined) return undefined;
  return { facts, from, next: { position, leaf, ...(restored && { restored }) } };
}

/** The cursor from a position on, in a journal that is known to be the present one. */
export async function cursorAt(journal: ReadJournal, position: number): Promise<Cursor> {
  if (position === 0) return { position };
  const restored = await lastRestored(journal, position);
  return {
    position,
    leaf: leafOf(await journal.readEntry(position - 1)),
    ...(restored && { restored }),
  };
}

interface Start {
  readonly from: number;
  readonly restored: KnownFact | undefined;
}

/**
 * Finds where a webhook goes on. Where the fact before its cursor is not the one that was delivered, the
 * server was put back to an older state, maybe several times: what follows the first restore that the webhook
 * does not know is new to it.
 */
async function startOf(journal: ReadJournal, cursor: Cursor | undefined): Promise<Start> {
  if (cursor === undefined || cursor.position === 0) return { from: 0, restored: undefined };
  const { position, leaf, restored } = cursor;
  if (leaf !== undefined && (await isAt(journal, { position: position - 1, leaf })))
    return { from: position, restored };
  const known = restored !== undefined && (await isAt(journal, restored)) ? restored : undefined;
  const { length } = journal.head();
  for (let at = known === undefined ? 0 : known.position + 1; at < length; at++)
    if ((await readFact(journal, at)).fact.type === "restored") return { from: at, restored: known };
  return { from: 0, restored: undefined };
}

async function isAt(journal: ReadJournal, { position, leaf }: KnownFact): Promise<boolean> {
  return position < journal.head().length && leafOf(await journal.readEntry(position)) === leaf;
}

async function lastRestored(journal: ReadJournal, before: number): Promise<KnownFact | undefined> {
  for (let position = before - 1; position >= 0; position--) {
    const { entry, fact } = await readFact(journal, position);
    if (fact.type === "restored") return { position, leaf: leafOf(entry) };
  }
  return undefined;
}

async function readFact(
  journal: ReadJournal,
  position: number,
): Promise<{ readonly entry: Uint8Array; readonly fact: { readonly type: string } }> {
  const entry = await journal.readEntry(position);
  return { entry, fact: journal.decode(entry) };
}

function leafOf(entry: Uint8Array): string {
  return toHash(logLeaf(entry));
}
