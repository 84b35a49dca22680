/** `stemma storage leases`: what work in progress holds of a fleet, and an end of that. */
import { formatTime } from "../../../../shared/cli/output.js";
import { counted, printable } from "../../../../shared/printable.js";
import type { ListedLease } from "../../../interface/api/stores/lease-definitions.js";
import { plain, type Printed } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

/** Models that one lease shows; the others are counted. */
const maxShown = 3;

const leases = plain("leases", {
  name: "leases",
  about: "models and lines that work in progress has leased: who, since when and until when; or end a lease",
  options: { end: "<lease> instead: end this lease" },
  help: `
A lease on models keeps what its holder reads, even if they are retired meanwhile. A lease on a
line gives its devices to one search or evaluation, which renews it; ending it ends that work, and
the same command goes on later. A lease that is not renewed expires.
`,
  run: async ({ end }, { call }): Promise<Printed> => {
    if (end !== undefined) {
      const data = await call("endLease", { lease: end });
      return { data, names: [end], text: `the lease ${printable(end)} is not held any more` };
    }
    const data = await call("leases");
    return {
      data,
      names: data.map(({ lease }) => lease),
      text: data.length === 0 ? "no leases" : data.map(describe).join("\n"),
    };
  },
});

function describe({ lease, line, models = [], holder, by, sinceMs, expiresAtMs }: ListedLease): string {
  const more = models.length > maxShown ? ` and ${counted(models.length - maxShown, "other")}` : "";
  const shown = models.slice(0, maxShown).map(nameOf).join(", ");
  return [
    lease,
    `  on      ${line === undefined ? `${shown}${more}` : `the line ${printable(line)}`}`,
    `  for     ${printable(holder)}`,
    ...(by === undefined ? [] : [`  by      ${printable(by)}`]),
    `  ${sinceMs === undefined ? "" : `since   ${formatTime(sinceMs)}, `}until ${formatTime(expiresAtMs)}`,
  ].join("\n");
}

export const commands = [leases];
