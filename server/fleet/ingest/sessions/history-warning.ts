/** Writes to the log about a device for whose history this server has no proof. Pure. */
import type { Birth } from "../../../../shared/wire/messages.js";
import { counted } from "../../../../shared/printable.js";

export interface HistoryWarning {
  readonly level: "warn" | "error";
  readonly name: "history-differs" | "history-unchecked";
  readonly text: string;
}

/** @param restores the positions of the restores in this journal */
export function historyWarning(
  device: string,
  { seenJournalLength, seenJournalRoot }: Pick<Birth, "seenJournalLength" | "seenJournalRoot">,
  restores: readonly { readonly position: number }[],
): HistoryWarning {
  if (seenJournalRoot === undefined)
    return {
      level: "warn",
      name: "history-unchecked",
      text:
        `${device} runs an earlier release, which does not check this server's history and may not be able to ` +
        'take models that this release trained. Upgrade its agent (docs/operating.md, "Upgrade")',
    };
  return {
    // The device alone knows whether it accepts the restore: it accepts each once.
    level: restores.some(({ position }) => position < seenJournalLength) ? "warn" : "error",
    name: "history-differs",
    text:
      `${device} has seen ${counted(seenJournalLength, "fact")} of a history that this server does not have. ` +
      "After a restore it announces again what is missing. If this home was put back to an older copy " +
      "without `stemma storage restore`, devices do not believe this server until you declare it: " +
      '`stemma journal declare-restore` (docs/operating.md, "A home that was put back")',
  };
}
