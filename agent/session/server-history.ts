/**
 * Checks that the server has the history that this device has seen. Pure. A journal only grows: one that is
 * shorter, or different at the same length, is another history, and only a server that reports a restore may
 * have that (docs/design.md, "Backup").
 */
import type { Welcome } from "../../shared/wire/messages.js";
import type { OutboxState } from "../outbox/outbox-state.js";

export type ServerHistory =
  | { readonly verdict: "grown" }
  /** Everything recorded from `position` on has to be announced again. */
  | { readonly verdict: "restored"; readonly position: number }
  | { readonly verdict: "rewritten"; readonly text: string };

export function judgeHistory(
  state: Pick<OutboxState, "seen" | "restoredAt">,
  welcome: Pick<Welcome, "head" | "restored" | "restoredPosition">,
): ServerHistory {
  const { seen, restoredAt } = state;
  const { head, restored, restoredPosition } = welcome;
  const wentBack =
    seen !== undefined &&
    head !== undefined &&
    (head.length < seen.length || (head.length === seen.length && head.chain !== seen.chain));
  // `restored` stays true forever; it matters once, or when the journal is not the one seen since.
  if (restored && (wentBack || !restoredAt.includes(restoredPosition)))
    return { verdict: "restored", position: restoredPosition };
  if (wentBack)
    return {
      verdict: "rewritten",
      text: `the server's journal has ${head.length} entries where ${seen.length} were seen before, and it does not report a restore; until it does, nothing is announced to it and nothing is deleted because of it`,
    };
  return { verdict: "grown" };
}
