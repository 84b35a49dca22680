/** `stemma search`: the models that were published to a hub (MH16). */
import type { Command } from "commander";
import { formatBytes, formatTime, type Column } from "../../../shared/cli/output.js";
import { defined } from "../../../shared/defined.js";
import type { HubModel } from "../../interface/api/models/bundle-schemas.js";
import { definePlainCommand, listed, plain, type Printed } from "../plain-command.js";
import { nameOf } from "../version-text.js";
import { hubText, namespaceText, openHub } from "./hub-address.js";

const columns: readonly Column<HubModel>[] = [
  { title: "MODEL", value: nameOf },
  { title: "ID", value: ({ versionId }) => versionId.slice(0, 8) },
  { title: "TASK", value: ({ task }) => task ?? "-" },
  { title: "LICENCE", value: ({ license }) => license ?? "-" },
  { title: "TAGS", value: ({ tags }) => tags.join(", ") || "-" },
  { title: "SIZE", value: ({ tensorBytes }) => formatBytes(tensorBytes), align: "right" },
  { title: "PUBLISHED", value: ({ listedAtMs }) => formatTime(listedAtMs) },
];
const layers: Column<HubModel> = {
  title: "LAYERS",
  value: ({ layersInCommon }) => layersInCommon,
  align: "right",
};

const search = plain(null, {
  name: "search",
  takes: { text: "[text] in the name, the task or the licence" },
  options: {
    from: hubText,
    namespace: namespaceText,
    tag: "<tag> only versions with this tag",
    task: "<task> only models for this task",
    query: "<query> only models that this query selects (docs/dql.md)",
    prefixOf: "<model> only those that begin with layers of this model of the hub",
  },
  help: `
Task and licence are what was stated by who published the model.

  stemma search regression --from acme
  stemma search --query 'select m where m["loss"] < 0.1'
`,
  run: async ({ from, namespace, ...choices }): Promise<Printed> => {
    const { operations, fleet } = await openHub(from, namespace);
    try {
      const { models, total } = await operations.searchHub({ fleet, ...defined(choices) });
      return {
        ...listed(models, {
          nameOf: nameOf,
          columns: choices.prefixOf === undefined ? columns : [...columns, layers],
          empty: "no published model matches",
        }),
        notes: total > models.length ? [`stemma: note: ${models.length} of ${total} are shown`] : [],
      };
    } finally {
      await operations.close();
    }
  },
});

export async function define(command: Command): Promise<void> {
  await definePlainCommand(command, search);
}
