/** `stemma release key|init|create|revoke|refresh|rotate|sign|publish`: versions that the owner signs offline. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { appendValue } from "../../../shared/cli/command-line.js";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { generateKey } from "../../../shared/trust/keys.js";
import {
  isRecipeManifest,
  unsignedManifest,
  type AnyManifest,
} from "../../../shared/trust/releases/manifest.js";
import { changeText, describeChange, parseChange } from "../../../shared/trust/releases/change-file.js";
import {
  addRelease,
  describeSignatures,
  firstChange,
  keysOf,
  refreshReleases,
  revokeRelease,
  rotateKeys,
  signaturesOf,
  signChange,
  type ReleaseChange,
} from "../../../shared/trust/releases/release-change.js";
import { parseRestoreFile } from "../../../shared/trust/releases/restore-approval.js";
import { saveSealedKey } from "../../../shared/trust/sealed-key.js";
import { readPassphrase } from "../../operations/stores/passphrase-file.js";
import { withContext, type CommandContext } from "../context.js";
import { keysOfChoices, publishedOf, validityOf, type KeyChoices } from "../release-choices.js";
import { signerOf, type SignerChoices } from "../release-signer.js";
import { addReleaseListCommands } from "./release-list.js";
import { publishRestoreCommand, signRestoreCommand } from "./restored.js";

const groupHelp = `
What changes the releases is a file: init, create, revoke, refresh and rotate write one, sign
adds signatures to it (without a server, as often as signers are needed), and publish brings
it to the server, which checks it as a device does. docs/releases.md goes through it.

  stemma release key create owner.key --passphrase-file phrase
  stemma release init first.release --key owner.key
  stemma release create soh:4 --file soh4.release
  stemma release sign soh4.release --key owner.key --passphrase-file phrase
  stemma release publish soh4.release
  stemma rollout create spring release:soh:4 --line soh --on all --start
`;

export function addReleaseCommands(release: Command): void {
  release.addHelpText("afterAll", groupHelp);
  addKeyCommand(release);
  addChangeCommands(release);
  addSignCommands(release);
  addReleaseListCommands(release);
}

function addKeyCommand(release: Command): void {
  const key = release.command("key").description("keys of the fleet's owner");
  key
    .command("create")
    .argument("<file>", "where the encrypted key goes")
    .requiredOption("--passphrase-file <file>", "encrypt it with the text of this file")
    .description("make an Ed25519 key for signing releases; keep it away from the server")
    .action(async (file: string, { passphraseFile }: { passphraseFile: string }, command: Command) =>
      withContext(command, async ({ output }) => {
        const files = nodeFiles();
        const path = resolve(file);
        await refuseExisting(path);
        const made = generateKey(nodeRandom());
        const passphrase = await readPassphrase(files, resolve(passphraseFile));
        await saveSealedKey({ files, random: nodeRandom() }, path, made, passphrase);
        const { publicKey } = made;
        output.print({
          data: { file: path, publicKey },
          names: [publicKey],
          text: `made ${file}, public key ${publicKey}`,
        });
      }),
    );
}

interface CreateChoices {
  readonly file: string;
  readonly name?: string;
  /** False: it is left out. */
  readonly pipeline: boolean;
}

function withPipeline(manifest: AnyManifest, isKept: boolean): AnyManifest {
  if (isKept || isRecipeManifest(manifest)) return manifest;
  const { pipeline: _, ...stripped } = manifest;
  return stripped;
}

function addChangeCommands(release: Command): void {
  withKeys(release.command("init").argument("<file>", "where the change goes"))
    .description("begin: the first root and an empty list of releases, to be signed")
    .action(async (file: string, choices: KeyChoices, command: Command) =>
      withContext(command, async (context) => {
        const keys = await keysOfChoices(nodeFiles(), choices);
        const change = firstChange(context.options.fleet, keys, validityOf(nodeClock().now(), choices));
        await writeChange(file, change, context);
      }),
    );
  release
    .command("create")
    .argument("<model>", "the version that is to be released, or recipe:NAME for a recipe of the fleet's own")
    .requiredOption("--file <file>", "where the change goes")
    .option("--name <name>", "name of the release (name:version of the model)")
    .option("--no-pipeline", "leave out its input pipeline: devices get the model without it")
    .description("release a version or a recipe: its manifest and the new list, to be signed")
    .action(async (model: string, choices: CreateChoices, command: Command) =>
      withContext(command, async (context) => {
        const { fleet } = context.options;
        const operations = await context.operations();
        const now = await publishedOf(operations, fleet);
        const made = await operations.releaseManifest({ fleet, model });
        const manifest = withPipeline(unsignedManifest(made.manifest), choices.pipeline);
        const name = choices.name ?? made.model;
        await writeChange(
          choices.file,
          addRelease(now, name, manifest, validityOf(nodeClock().now())),
          context,
        );
      }),
    );
  release
    .command("revoke")
    .argument("<name>", "the release")
    .requiredOption("--because <reason>", "signed with it; devices show it")
    .requiredOption("--file <file>", "where the change goes")
    .description("revoke a release: devices that hear of it do not install the version any more")
    .action(async (name: string, choices: { file: string; because: string }, command: Command) =>
      withContext(command, async (context) => {
        const { fleet } = context.options;
        const now = await publishedOf(await context.operations(), fleet);
        const validity = validityOf(nodeClock().now());
        await writeChange(
          choices.file,
          revokeRelease(fleet, now, { name, because: choices.because }, validity),
          context,
        );
      }),
    );
  release
    .command("refresh")
    .requiredOption("--file <file>", "where the change goes")
    .option("--online", "only the two roles that a key may sign which is kept online", false)
    .description("the same releases, valid for longer")
    .action(async (choices: { file: string; online: boolean }, command: Command) =>
      withContext(command, async (context) => {
        const { fleet } = context.options;
        const now = await publishedOf(await context.operations(), fleet);
        const validity = validityOf(nodeClock().now());
        await writeChange(choices.file, refreshReleases(fleet, now, validity, choices.online), context);
      }),
    );
  withKeys(release.command("rotate").requiredOption("--file <file>", "where the change goes"))
    .description("other keys: signed by those before and the new ones; what is not named stays")
    .action(async (choices: KeyChoices & { file: string }, command: Command) =>
      withContext(command, async (context) => {
        const { fleet } = context.options;
        const now = await publishedOf(await context.operations(), fleet);
        const keys = await keysOfChoices(nodeFiles(), choices, keysOf(now.root));
        const validity = validityOf(nodeClock().now(), choices);
        await writeChange(choices.file, rotateKeys(fleet, now, keys, validity), context);
      }),
    );
}

function withKeys(command: Command): Command {
  const key = (role: string): string => `a key of ${role}: a key file, or its public key (repeatable)`;
  return command
    .option("--key <key>", key("all roles"), appendValue, [])
    .option("--root-key <key>", key("the root, which names all others"), appendValue, [])
    .option("--targets-key <key>", key("the list of releases"), appendValue, [])
    .option("--online-key <key>", key("what states that the list is the newest"), appendValue, [])
    .option("--root-threshold <count>", "signatures that the root needs (1)")
    .option("--targets-threshold <count>", "signatures that the list needs (1)")
    .option("--root-days <days>", "days for which the root is valid (1095)");
}

function addSignCommands(release: Command): void {
  release
    .command("sign")
    .argument("<file>", "the change; its signatures are added to it")
    .option("--key <file>", "the encrypted key")
    .option("--passphrase-file <file>", "its passphrase")
    .option(
      "--signer <command>",
      "a program that signs: bytes on its standard input, 128 hexadecimal digits out",
    )
    .option("--public-key <hex>", "the public key of that program")
    .description("sign a change, or a restore, with a key; needs no server")
    .action(async (file: string, choices: SignerChoices, command: Command) =>
      withContext(command, async (context) => {
        const files = nodeFiles();
        const text = await readText(file);
        const restore = parseRestoreFile(text);
        if (restore !== undefined) return signRestoreCommand(file, restore, choices, context);
        const change = parseChange(text);
        for (const line of describeChange(change)) context.output.info(`stemma: ${line}`);
        const signed = signChange(change, await signerOf(files, choices));
        await writeDurably(files, resolve(file), Buffer.from(changeText(signed.change)));
        printChange(file, signed.change, context, `signed ${signed.roles.join(", ")}`);
      }),
    );
  release
    .command("publish")
    .argument("<file>", "the signed change")
    .option("--dry-run", "only check that it is complete", false)
    .description("bring a signed change, or restore, to the server; connected devices get it at once")
    .action(async (file: string, { dryRun }: { dryRun: boolean }, command: Command) =>
      withContext(command, async (context) => {
        const { output, operations, options } = context;
        const { fleet } = options;
        const text = await readText(file);
        if (parseRestoreFile(text) !== undefined) return publishRestoreCommand(text, dryRun, context);
        const change = changeText(parseChange(text));
        const published = await (await operations()).publishReleases({ fleet, change, dryRun });
        output.print({
          data: published,
          names: published.releases.releases.map(({ name }) => name),
          text: [`${dryRun ? "would publish" : "published"}:`, ...published.changes].join("\n  "),
        });
      }),
    );
}

async function readText(file: string): Promise<string> {
  return new TextDecoder().decode(await nodeFiles().read(resolve(file)));
}

async function refuseExisting(path: string): Promise<void> {
  if ((await nodeFiles().stat(path)) !== undefined)
    throw new StemmaError("USAGE", `${path} exists. Name another file, or remove that one.`, { path });
}

async function writeChange(file: string, change: ReleaseChange, context: CommandContext): Promise<void> {
  const path = resolve(file);
  await refuseExisting(path);
  await writeDurably(nodeFiles(), path, Buffer.from(changeText(change)));
  printChange(file, change, context, describeChange(change).join("\n"));
}

/** What still has to be signed is said each time: a file goes from hand to hand. */
function printChange(file: string, change: ReleaseChange, { output }: CommandContext, done: string): void {
  const missing = signaturesOf(change).filter(({ signatures, threshold }) => signatures < threshold);
  const next =
    missing.length === 0
      ? `complete: stemma release publish ${file}`
      : missing.map(describeSignatures).join("\n");
  output.print({
    data: { file: resolve(file), changes: describeChange(change), missing },
    names: [resolve(file)],
    text: `${done}\n${next}`,
  });
}
