/** Describes for the terminal what a collection frees in storage tiers. Pure. */
import { formatBytes } from "../../../../shared/cli/output.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";

type Tiers = NonNullable<CallOutput<"collect">["tiers"]>;

/** Describes what a collection frees in each tier, and what it cannot look at. */
export function describeTiers(tiers: Tiers | undefined, verb: "freed" | "would free"): readonly string[] {
  if (tiers === undefined) return [];
  return [
    ...tiers.places.map(({ tier, files, bytes, rewrittenBytes }) => {
      const rewritten = rewrittenBytes === 0 ? "" : `, ${formatBytes(rewrittenBytes)} of them written again`;
      const where = tier === null ? "in low files of this home" : `in the tier ${tier}`;
      return `${verb} ${formatBytes(bytes - rewrittenBytes)} ${where} (${files} low files${rewritten})`;
    }),
    ...tiers.unreachable.map(
      ({ tier, message }) => `not looked at: the tier ${tier} is unreachable. ${message}`,
    ),
  ];
}
