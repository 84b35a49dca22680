/** The fact that a fleet was restored. Devices accept each such fact once, so no two are the same. */
import { defined } from "../../../shared/defined.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { Clock, Random } from "../../../shared/ports.js";
import type { FactOf } from "../../../shared/journal/fact.js";

const idBytes = 16;

export interface RestoredPosition {
  readonly position: number;
  /** null: what is before `position` is in a backup. */
  readonly lostFrom: number | null;
  readonly by?: Caller | undefined;
}

export function restoredFact(
  { clock, random }: { readonly clock: Pick<Clock, "now">; readonly random: Random },
  { position, lostFrom, by }: RestoredPosition,
): FactOf<"restored"> {
  const id = Buffer.from(random.bytes(idBytes)).toString("hex");
  return {
    type: "restored",
    atMs: clock.now(),
    position,
    lostFrom,
    id,
    ...defined({ by }),
  };
}
