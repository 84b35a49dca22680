/** `stemma model list`: a fleet's models, all of them or a page. */
import type { OperationInput } from "../../../interface/api/server-operations.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import { listed, plain, repeated, type PlainContext } from "../../plain-command.js";
import { nameOf, versionColumns } from "../../version-text.js";

/** Models per request when all are listed. */
const pageSize = 1000;

const list = plain("listModels", {
  name: "list",
  about: "list models, newest versions last",
  options: {
    name: "<name>",
    device: "<device>",
    line: "<line>",
    all: "also list retired ones",
    where: repeated("<condition> only those whose metadata matches: key=value, or <, <=, >, >= (repeatable)"),
    limit: "<n> only the newest n",
    offset: "<n> skip the newest n",
  },
  help: `
Without --limit every model is listed. With it only the newest are listed, and
--offset skips that many of the newest.

NEW: what a version added to the store when it was recorded, as it was stored then,
with its record and data. What encoding, dropping and collection change later is in
stemma storage stats.

SAVED: by the clock of who saved it; (doubtful) where that was wrong by more than
an hour.

  stemma model list --where accuracy>=0.9 --where note=winter
  stemma model list --limit 20 --offset 20      the 20 before the newest 20
`,
  run: (choices, { call }) => newestModels(call, choices),
  print: ({ versions, total }, { offset = 0 }, { fleet }) => {
    const next = offset + versions.length;
    const isLast = next >= total || versions.length === 0;
    return {
      ...listed(versions, {
        nameOf,
        columns: versionColumns,
        empty:
          total > 0
            ? `none of the ${total} models is left after --offset ${offset}`
            : `no models in the fleet ${fleet} match; import one with: ` +
              "stemma model import FILE.safetensors --name NAME",
      }),
      notes: isLast
        ? []
        : [
            `stemma: note: ${versions.length} of ${total} models are shown; older ones follow with --offset ${next}`,
          ],
    };
  },
});

/** The newest models in ascending order: `limit` of them, or all. */
export async function newestModels(
  call: PlainContext["call"],
  { limit, offset = 0, ...filter }: Omit<OperationInput<"listModels">, "fleet">,
): Promise<{ readonly versions: readonly VersionSummary[]; readonly total: number }> {
  const versions: VersionSummary[] = [];
  for (;;) {
    const page = await call("listModels", {
      ...filter,
      order: "newest",
      offset: offset + versions.length,
      limit: limit ?? pageSize,
    });
    versions.push(...page.versions);
    const isLast = page.versions.length === 0 || offset + versions.length >= page.total;
    if (isLast || limit !== undefined) return { versions: versions.reverse(), total: page.total };
  }
}

export const commands = [list];
