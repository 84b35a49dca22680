/**
 * Checks that the server's journal begins with what this device has seen of it, before anything that the server
 * says is believed. Pure. A journal only grows, so a newer head must come with a proof that it continues the
 * newest one seen (RFC 6962 section 2.1.2). All receipts are before that head, so they are in the history with
 * it. Without that proof only a restore that this device has not accepted yet explains the difference: the fact
 * `restored`, proven to be in the journal. (docs/protocol.md, "Backups and history")
 */
import { isStemmaError, type StemmaError } from "../../shared/errors.js";
import {
  emptyRoot,
  logLeaf,
  toHash,
  verifyConsistency,
  verifyInclusion,
  type LogRoot,
} from "../../shared/journal/merkle-log.js";
import { readProvenFact } from "../../shared/journal/proven-fact.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { receiptInvalid } from "../../shared/trust/signatures.js";
import { approvedLog, parseRestoreApproval } from "../../shared/trust/releases/restore-approval.js";
import type { ProvenFact, Receipt, StartProof, Welcome, WireHead } from "../../shared/wire/messages.js";
import type { OutboxState } from "../outbox/outbox-state.js";
import type { RestoreOwner } from "../releases/release-trust.js";
import { counted } from "../../shared/printable.js";

/** The restores that a server has shown in this session, over several welcomes where there are many. */
export interface ShownRestores {
  /** Position in the journal from which further ones are asked for. */
  readonly from: number;
  readonly pages: number;
  /** The restores that this device did not know. */
  readonly unknown: readonly ShownRestore[];
}
export const nothingShown: ShownRestores = { from: 0, pages: 0, unknown: [] };
/** A fact `restored` by its leaf hash; what was recorded from `position` on may be lost. */
interface ShownRestore {
  readonly leaf: Hash;
  /** The position of the fact in the journal. */
  readonly at: number;
  readonly position: number;
  /** The fleet's owner signed the journal up to this fact. */
  readonly isApproved: boolean;
  /** The reason why a signature does not count, where one came. */
  readonly why?: string;
}
/** The largest number of pages: with maxProvenRestores of them on a page, as many restores as a device remembers. */
const maxPages = 64;

/** `head`: the newest one from now on. `learned`: leaf hashes of restores that this device did not know. */
interface Believed {
  readonly head: WireHead;
  readonly learned: readonly Hash[];
}
export type ServerHistory =
  | ({ readonly verdict: "continued" } & Believed)
  /** A restore: everything recorded from `position` on has to be announced again. */
  | ({ readonly verdict: "restored"; readonly position: number } & Believed)
  /** A restore explains the difference, and the owner's signature of it is missing. */
  | { readonly verdict: "unsigned"; readonly text: string }
  /** A history with more restores: nothing is known before all were seen. */
  | { readonly verdict: "more"; readonly shown: ShownRestores }
  /** The proof starts at another head than the newest one: the server answers an older birth. */
  | { readonly verdict: "unanswered" }
  /** The server is not believed; `text` states why, and what to do. */
  | { readonly verdict: "rewritten"; readonly text: string };

type Known = Pick<OutboxState, "seen" | "knownRestores">;

/** The head of a device that has seen none. */
const noHead: LogRoot = { length: 0, root: emptyRoot };

type ShownHistory = Pick<Welcome, "head" | "start" | "restores" | "restoresFrom" | "moreRestores">;

/**
 * @param before what the welcomes before this one have shown
 * @param owner undefined: the server's word for a restore is enough
 */
export function judgeHistory(
  { seen = undefined, knownRestores }: Known,
  { head, start, restores = [], restoresFrom = 0, moreRestores = false }: ShownHistory,
  before: ShownRestores = nothingShown,
  owner?: RestoreOwner,
): ServerHistory {
  if (head === undefined) return rewritten("it names no signed head of its journal");
  if (restoresFrom !== before.from) return { verdict: "unanswered" };
  const shown = restores.map((fact) => provenRestore(fact, head, owner));
  if (shown.includes(undefined)) return rewritten("it sent a proof of a restore that does not hold");
  const unknown = shown
    .filter((one) => one !== undefined)
    .filter(({ leaf }) => !knownRestores.includes(leaf))
    .concat(before.unknown);
  if (moreRestores) {
    const from = 1 + Math.max(-1, ...restores.map(({ position }) => position));
    const pages = before.pages + 1;
    if (from <= before.from || pages > maxPages)
      return rewritten("it announces restores that it does not show");
    return { verdict: "more", shown: { from, pages, unknown } };
  }
  const learned = unknown.map(({ leaf }) => leaf);
  const from = seen ?? noHead;
  if (isSame(from, head)) return { verdict: "continued", head, learned };
  if (start !== undefined) {
    if (start.length !== from.length) return { verdict: "unanswered" };
    if (continues(from, start, head)) return { verdict: "continued", head, learned };
    return rewritten("it sent a proof of its history that does not hold");
  }
  if (seen === undefined) return { verdict: "unanswered" };
  const losses = unknown.filter(({ position }) => position < seen.length);
  if (losses.length > 0) {
    // An owner who signs a journal signs every restore in it.
    const first = Math.min(...losses.map(({ at }) => at));
    if (owner !== undefined && !unknown.some(({ at, isApproved }) => isApproved && at >= first))
      return unsigned(owner, seen, unknown);
    const position = Math.min(...losses.map((loss) => loss.position));
    return { verdict: "restored", position, head, learned };
  }
  return rewritten(
    `its journal has ${counted(head.length, "fact")} and does not begin with the ${seen.length} that this device ` +
      "has seen, and it shows no restore that this device has not accepted already",
  );
}

function rewritten(why: string): ServerHistory {
  const text =
    `this device does not believe the server: ${why}. Nothing is announced to it, nothing that it sends ` +
    "is acted on, and nothing is deleted because of it. If the server was put back to an older copy, its " +
    `operator declares that with \`stemma journal declare-restore\`; if not, somebody may be ` +
    "impersonating it";
  return { verdict: "rewritten", text };
}

function unsigned(owner: RestoreOwner, seen: LogRoot, unknown: readonly ShownRestore[]): ServerHistory {
  const wrong = unknown.findLast(({ why }) => why !== undefined)?.why;
  const missing =
    owner.root === undefined
      ? "this device has no root of releases to check it with (`stemma agent trust FILE`)"
      : (wrong ?? "the server has not shown it");
  const text =
    `the server says that it was restored, and does not have all of the ${seen.length} facts that this device has ` +
    `seen. This device demands releases, so it waits for the signature of the fleet's owner: ${missing}. It keeps ` +
    "everything until then, and goes on training. The owner signs what `stemma journal restored` writes";
  return { verdict: "unsigned", text };
}

function isSame(a: LogRoot, b: LogRoot): boolean {
  return a.length === b.length && a.root === b.root;
}

function continues(from: LogRoot, { hashes }: Pick<StartProof, "hashes">, to: LogRoot): boolean {
  return verifyConsistency({ from: { length: from.length, root: from.root }, to, proof: hashes });
}

function isProven({ position, entry, hashes }: ProvenFact, { length, root }: WireHead): boolean {
  return verifyInclusion({ leaf: logLeaf(entry), position, length, root, proof: hashes });
}

/** Reads a proven restore; undefined where the proof does not hold, or the fact is another one. */
function provenRestore(
  fact: ProvenFact,
  head: WireHead,
  owner: RestoreOwner | undefined,
): ShownRestore | undefined {
  const content = readProvenFact(fact.entry);
  if (content?.type !== "restored" || !isProven(fact, head)) return undefined;
  const { position } = content;
  return { leaf: toHash(logLeaf(fact.entry)), at: fact.position, position, ...approvalOf(fact, head, owner) };
}

/**
 * Checks whether the owner signed the journal that ends with this fact, and this head's journal begins with
 * that one. So a signature holds for one restore in one history.
 */
function approvalOf(
  { approval, position }: ProvenFact,
  head: WireHead,
  owner: RestoreOwner | undefined,
): Pick<ShownRestore, "isApproved" | "why"> {
  if (approval === undefined || owner?.root === undefined) return { isApproved: false };
  const { fleet, root } = owner;
  try {
    const signed = approvedLog({ root, fleet }, parseRestoreApproval(approval.text));
    if (signed.length === position + 1 && continues(signed, approval, head)) return { isApproved: true };
    return { isApproved: false, why: "the one that it shows is of another journal" };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return { isApproved: false, why: error.message };
  }
}

/**
 * The relation of a receipt's head to the newest head seen. `older`: late, and told by a newer one already.
 * `unanswered`: a message between the two was lost. `contradicts`: another history.
 */
export type ReceiptHistory = "continued" | "older" | "unanswered" | "contradicts";

/**
 * Checks that the version's fact is in the journal, and that the journal continues the newest head seen.
 * @throws RECEIPT_INVALID where the receipt itself is not proven
 */
export function judgeReceipt(seen: LogRoot = noHead, receipt: Receipt): ReceiptHistory {
  const { head, start, fact, position, versionId } = receipt;
  const reject = (why: string): StemmaError => receiptInvalid(receipt, why);
  if (head === undefined || start === undefined || fact === undefined) throw reject("comes without proofs");
  const content = readProvenFact(fact.entry);
  if (
    content?.type !== "recorded" ||
    content.versionId !== versionId ||
    content.name !== receipt.name ||
    content.version !== receipt.version
  )
    throw reject("comes with the fact of another version");
  if (content.isClaim && receipt.kind !== "recorded")
    throw reject("states that a model is kept whose tensors it lacks");
  if (fact.position !== position || !isProven(fact, head))
    throw reject("does not prove that the version is in the server's journal");
  if (isSame(seen, head)) return "continued";
  if (head.length < seen.length) return "older";
  if (head.length === seen.length) return "contradicts";
  if (start.length !== seen.length) return "unanswered";
  return continues(seen, start, head) ? "continued" : "contradicts";
}
