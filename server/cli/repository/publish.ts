/** `stemma publish`: models with their lineage go to a hub, or into a file (MH16). */
import { formatBytes } from "../../../shared/cli/output.js";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import { bundleOperations } from "../../interface/api/models/bundle-definitions.js";
import { readBy } from "../input-option.js";
import { pathOf, plain, type Printed } from "../plain-command.js";
import { copiedText, leftOut } from "./copied-text.js";
import { hubText, namespaceText, openHub } from "./hub-address.js";
import { verb } from "./verb.js";

const ended = bundleOperations.finishDeposit.body.shape;
const licenseOption = {
  text: "<spdx> the licence, such as Apache-2.0",
  read: readBy("--license", ended.license),
} as const;
const taskOption = {
  text: "<task> the task that they are for, such as image-classification",
  read: readBy("--task", ended.task),
} as const;
export const depthOption = {
  text: "<n> only so many generations of parents (default: all)",
  read: readBy("--depth", bundleOperations.describeBundle.body.shape.depth),
} as const;
export const withDataText = "also the stored samples of trainings";

export const define = verb(
  plain(null, {
    name: "publish",
    takes: { models: "<models...> versions; their parents go with them" },
    options: {
      to: hubText,
      namespace: namespaceText,
      file: { text: "<file> write a file instead, for stemma pull --file", read: pathOf },
      license: licenseOption,
      task: taskOption,
      depth: depthOption,
      withData: withDataText,
      force: "replace the file; also a fleet whose name is near to another one's",
    },
    help: `
Nothing is visible there before all of it was checked. Killed or cut off, the same command
goes on; repeated, it makes nothing twice.

  stemma publish curve:2 --to acme --license Apache-2.0 --task regression
  stemma publish curve:2 --file curve.bundle
`,
    run: async (
      { models, to, namespace, file, license, task, force, ...range },
      context,
    ): Promise<Printed> => {
      const { operations, fleet, output, signal } = context;
      const asked = { models, ...defined(range) };
      const source = { operations: await operations(), fleet };
      const onBytes = (bytes: number): void => {
        output.progress(`sent ${formatBytes(bytes)}`);
      };
      try {
        if (file !== undefined) {
          refuseWithFile({ to, namespace, license, task });
          const { writeBundle } = await import("./bundle-file.js");
          const { manifest, bytes } = await writeBundle(source, file, { asked, force, signal, onBytes });
          const count = manifest.records.length;
          return {
            data: { file, bytes, models: manifest.models, versions: count },
            names: manifest.models,
            text: `wrote ${count} ${count === 1 ? "version" : "versions"}, ${formatBytes(bytes)}`,
            notes: leftOut(manifest),
          };
        }
        const { copyBundle } = await import("./copy-bundle.js");
        const hub = await openHub(to, namespace);
        try {
          const statement = { list: true, ...defined({ license, task }) };
          const copied = await copyBundle(source, hub, { asked, statement, force, signal, onBytes });
          return copiedText("published", copied);
        } finally {
          await hub.operations.close();
        }
      } finally {
        output.endProgress();
      }
    },
  }),
);

function refuseWithFile(others: Readonly<Record<string, unknown>>): void {
  const named = Object.keys(others).find((name) => others[name] !== undefined);
  if (named !== undefined)
    throw new StemmaError("USAGE", `--${named} is for a hub. Leave it or --file away.`);
}
