/** `stemma release list|show|root`: what is released, by which keys, and until when. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { releaseRoles } from "../../../shared/trust/releases/metadata.js";
import { keysOf } from "../../../shared/trust/releases/release-change.js";
import type { FleetReleasesAnswer } from "../../interface/api/rollouts/release-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { publishedOf } from "../release-choices.js";

export function addReleaseListCommands(release: Command): void {
  release
    .command("list")
    .description("the releases of the fleet")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  release
    .command("show")
    .argument("[name]", "a release; absent: keys, and until when each role is valid")
    .description("what a release states, or who signs releases")
    .action(async (name: string | undefined, _: unknown, command: Command) =>
      withContext(command, (context) =>
        name === undefined ? showKeys(context) : showRelease(name, context),
      ),
    );
  release
    .command("root")
    .requiredOption("--file <file>", "where it goes")
    .description("write the root for devices to pin: stemma agent trust FILE")
    .action(async ({ file }: { file: string }, command: Command) =>
      withContext(command, async ({ output, operations, options: { fleet } }) => {
        const root = (await releasesOf(await operations(), fleet)).metadata?.roots.at(-1) ?? "";
        await writeDurably(nodeFiles(), resolve(file), Buffer.from(root));
        output.print({ data: { file: resolve(file) }, names: [resolve(file)], text: `wrote ${file}` });
      }),
    );
}

async function releasesOf(
  operations: Awaited<ReturnType<CommandContext["operations"]>>,
  fleet: string,
): Promise<FleetReleasesAnswer> {
  // Says what to do where nothing was published.
  await publishedOf(operations, fleet);
  return await operations.releases({ fleet });
}

async function listCommand({ output, operations, options: { fleet } }: CommandContext): Promise<void> {
  const { releases, revoked, expires, isExpired } = await (await operations()).releases({ fleet });
  const rows = [
    ...releases.map(({ name, model, recipe, versionId }) => ({
      name,
      model: model ?? (recipe === null ? "not here" : `recipe ${recipe}`),
      versionId,
      state: "valid",
    })),
    ...revoked.map(({ name, versionId, because }) => ({
      name,
      model: "",
      versionId,
      state: `revoked: ${because}`,
    })),
  ];
  output.printRows(rows, {
    nameOf: (row) => row.name,
    columns: [
      { title: "RELEASE", value: (row) => row.name },
      { title: "MODEL", value: (row) => row.model },
      { title: "VERSION", value: (row) => row.versionId.slice(0, 16) },
      { title: "STATE", value: (row) => row.state },
    ],
    empty: `no releases in the fleet ${fleet}`,
    ...(expires === null ? {} : { text: `${isExpired ? "EXPIRED at" : "valid until"} ${expires}` }),
  });
}

async function showKeys({ output, operations, options: { fleet } }: CommandContext): Promise<void> {
  const published = await publishedOf(await operations(), fleet);
  const keys = keysOf(published.root);
  const rows = releaseRoles.map((role) => ({
    role,
    version: published[role].signed.version,
    expires: published[role].signed.expires,
    threshold: keys[role].threshold,
    publicKeys: keys[role].publicKeys,
  }));
  output.printRows(rows, {
    nameOf: (row) => row.role,
    columns: [
      { title: "ROLE", value: (row) => row.role },
      { title: "VERSION", value: (row) => String(row.version) },
      { title: "VALID UNTIL", value: (row) => row.expires },
      {
        title: "SIGNATURES",
        value: ({ threshold, publicKeys }) =>
          `${threshold} of ${publicKeys.map((key) => `${key.slice(0, 16)}…`).join(", ")}`,
      },
    ],
  });
}

async function showRelease(
  name: string,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const { releases } = await releasesOf(await operations(), fleet);
  const found = releases.find((one) => one.name === name);
  if (found === undefined)
    throw new StemmaError(
      "RELEASE_UNKNOWN",
      `The fleet ${fleet} has no release ${name}. \`stemma release list\` shows them.`,
    );
  const manifest = JSON.parse(found.manifest) as unknown;
  output.print({ data: { ...found, manifest }, names: [name], text: JSON.stringify(manifest, undefined, 2) });
}
