/**
 * The authorities of the fleet's owner, as the journal states them: what is trusted, how it names devices, and which of
 * its certificates are revoked. Pure. (docs/own-authority.md)
 */
import { byOf } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { TrustedAuthority } from "../../../access/identity/trusted-authority.js";
import type { Ended } from "../answers/version-answers.js";
import { checkName } from "./naming.js";
import { authorityUnknown, listNotNewer } from "./state-errors.js";

export interface AuthorityState extends TrustedAuthority {
  /** The time when it was added, or when what is said of it was replaced. */
  readonly atMs: number;
  readonly by?: string;
  /** The end of trust in it. What its lists revoke stays revoked, should it be added again. */
  readonly removed?: Ended;
}

export function applyAuthorityAdded(
  authorities: Map<string, AuthorityState>,
  fact: FactOf<"authority-added">,
): void {
  const { authority, certificates, nameForm, onEndedList, atMs } = fact;
  const known = authorities.get(authority);
  authorities.set(authority, {
    authority,
    certificates,
    nameForm,
    onEndedList,
    atMs,
    ...byOf(fact),
    revoked: known?.revoked ?? new Map(),
    lists: known?.lists ?? new Map(),
  });
}

/** @returns whether there is such an authority */
export function applyAuthorityRemoved(
  authorities: Map<string, AuthorityState>,
  fact: FactOf<"authority-removed">,
): boolean {
  const known = authorities.get(fact.authority);
  if (known === undefined) return false;
  const { atMs, because } = fact;
  authorities.set(fact.authority, { ...known, removed: { atMs, because, ...byOf(fact) } });
  return true;
}

/** @returns whether there is such an authority */
export function applyAuthorityList(
  authorities: Map<string, AuthorityState>,
  { authority, issuer, revoked, restored, list }: FactOf<"authority-list">,
): boolean {
  const known = authorities.get(authority);
  if (known === undefined) return false;
  const serials = new Set(known.revoked.get(issuer));
  for (const serial of restored) serials.delete(serial);
  for (const serial of revoked) serials.add(serial);
  authorities.set(authority, {
    ...known,
    revoked: new Map(known.revoked).set(issuer, serials),
    lists: list === undefined ? known.lists : new Map(known.lists).set(issuer, list),
  });
  return true;
}

/** @throws NAME_INVALID, NOT_FOUND, CERTIFICATE_REFUSED for a list that is not newer than the one that is known */
export function checkAuthorityFact(
  authorities: ReadonlyMap<string, AuthorityState>,
  fact: FactOf<"authority-added" | "authority-removed" | "authority-list">,
): void {
  const { authority } = fact;
  checkName("authority", authority);
  if (fact.type === "authority-added") return;
  const known = requireAuthority(authorities, authority);
  if (fact.type === "authority-list") refuseOlderList(known, fact);
}

/** @throws NOT_FOUND */
export function requireAuthority(
  authorities: ReadonlyMap<string, AuthorityState>,
  name: string,
): AuthorityState {
  const known = authorities.get(name);
  if (known === undefined || known.removed !== undefined) throw authorityUnknown(name);
  return known;
}

function refuseOlderList(
  { lists }: AuthorityState,
  { authority, issuer, list }: FactOf<"authority-list">,
): void {
  const known = lists.get(issuer);
  if (known === undefined || list === undefined || BigInt(list.number) > BigInt(known.number)) return;
  throw listNotNewer(authority, list.number, known.number);
}
