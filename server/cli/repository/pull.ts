/** `stemma pull`: models of a hub, or of a file, come into this repository with their lineage (MH16). */
import { formatBytes } from "../../../shared/cli/output.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { pathOf, plain, type Printed } from "../plain-command.js";
import { copiedText } from "./copied-text.js";
import { hubText, namespaceText, openHub } from "./hub-address.js";
import { depthOption, withDataText } from "./publish.js";
import { verb } from "./verb.js";

export const define = verb(
  plain(null, {
    name: "pull",
    takes: { models: "[models...] versions of the hub; their parents come with them" },
    options: {
      from: hubText,
      namespace: namespaceText,
      file: { text: "<file> take what stemma publish --file wrote", read: pathOf },
      depth: depthOption,
      withData: withDataText,
      force: "also a fleet whose name is near to another one's",
    },
    help: `
Versions keep their ids; they are numbered after those of the same name here. What is here is
not fetched again. Killed or cut off, the same command goes on.

  stemma pull curve:2 --from acme
  stemma pull --file curve.bundle
`,
    run: async ({ models, from, namespace, file, force, ...range }, context): Promise<Printed> => {
      const { operations, fleet, output, signal } = context;
      if ((file === undefined) === (models.length === 0))
        throw new StemmaError("USAGE", "Name models of the hub, or a file with --file.");
      const target = { operations: await operations(), fleet };
      const onBytes = (bytes: number): void => {
        output.progress(`received ${formatBytes(bytes)}`);
      };
      try {
        if (file !== undefined) {
          const { readBundle } = await import("./bundle-file.js");
          return copiedText("pulled", await readBundle(target, file, { force, signal, onBytes }));
        }
        const { copyBundle } = await import("./copy-bundle.js");
        const hub = await openHub(from, namespace);
        try {
          const asked = { models, ...defined(range) };
          return copiedText(
            "pulled",
            await copyBundle(hub, target, { asked, statement: {}, force, signal, onBytes }).catch(
              (error: unknown) => {
                throw adviseSearch(error, hub.fleet, from);
              },
            ),
          );
        } finally {
          await hub.operations.close();
        }
      } finally {
        output.endProgress();
      }
    },
  }),
);

/** Names the verb that lists the models of the hub; others list those of this repository. */
function adviseSearch(error: unknown, fleet: string, from: string | undefined): unknown {
  if (!isStemmaError(error, "MODEL_NOT_FOUND")) return error;
  const message = error.message
    .replace("This fleet has", `The fleet ${fleet} of the hub has`)
    .replace("`stemma model list`", `\`stemma search${from === undefined ? "" : ` --from ${from}`}\``);
  return new StemmaError(error.code, message, { ...error.details, cause: error });
}
