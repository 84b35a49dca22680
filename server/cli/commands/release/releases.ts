/** `stemma release key|init|create|revoke|refresh|rotate|time|sign|publish`: versions that the owner signs offline. */
import { resolve } from "node:path";
import { nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { ownerCertificate, pemOf } from "../../../../shared/trust/certificates/owner-certificate.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import {
  isRecipeManifest,
  unsignedManifest,
  type AnyManifest,
} from "../../../../shared/trust/releases/manifest.js";
import { changeText, describeChange, parseChange } from "../../../../shared/trust/releases/change-file.js";
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
} from "../../../../shared/trust/releases/release-change.js";
import { parseRestoreFile } from "../../../../shared/trust/releases/restore-approval.js";
import { parseOwnerTimeFile } from "../../../../shared/trust/releases/owner-time.js";
import { saveSealedKey } from "../../../../shared/trust/sealed-key.js";
import { readPassphrase } from "../../../operations/stores/passphrase-file.js";
import { readDocumentSource } from "../../documents/document-source.js";
import { documentHashes } from "../../documents/released-documents.js";
import { plain, type PlainContext } from "../../plain-command.js";
import { keyOptions, keysOfChoices, publishedOf, validityOf } from "../../release-choices.js";
import { signerOf, signerOptions } from "../../release-signer.js";
import { commands as listCommands } from "./list.js";
import { publishTimeCommand, signTimeCommand, timeCommand } from "./time.js";
import { publishRestoreCommand, signRestoreCommand } from "../journal/restored.js";

export const help = `
What changes the releases is a file: init, create, revoke, refresh, rotate and time write one, sign
adds signatures to it (without a server, as often as signers are needed), and publish brings
it to the server, which checks it as a device does. docs/releases.md goes through it.

  stemma release key create owner.key --passphrase-file phrase
  stemma release init first.release --key owner.key
  stemma release create soh:4 --file soh4.release
  stemma release sign soh4.release --key owner.key --passphrase-file phrase
  stemma release publish soh4.release
  stemma rollout create spring release:soh:4 --line soh --on all --start
`;

const changeFile = { text: "<file> where the change goes", required: true } as const;

const createKey = plain(null, {
  name: "create",
  about: "make an Ed25519 key for signing releases; keep it away from the server",
  takes: { file: "where the encrypted key goes" },
  options: { passphraseFile: { text: "<file> encrypt it with the text of this file", required: true } },
  run: async ({ file, passphraseFile }) => {
    const files = regularFiles();
    const path = resolve(file);
    await refuseExisting(path);
    const made = generateKey(nodeRandom());
    const passphrase = await readPassphrase(files, resolve(passphraseFile));
    await saveSealedKey({ files, random: nodeRandom() }, path, made, passphrase);
    return { file: path, publicKey: made.publicKey };
  },
  print: ({ publicKey }, { file }) => ({
    names: [publicKey],
    text: `made ${file}, public key ${publicKey}`,
  }),
});

const certificate = plain(null, {
  name: "certificate",
  about: "write the certificate of a release key, for who verifies attestations",
  options: { file: { text: "<file> where it goes (PEM)", required: true }, ...signerOptions },
  help: `
The same key has the same certificate each time. It states the public key, no name and no time.
`,
  run: async ({ file, ...choices }) => {
    const path = resolve(file);
    await refuseExisting(path);
    const signer = await signerOf(regularFiles(), choices);
    await writeDurably(regularFiles(), path, Buffer.from(pemOf(ownerCertificate(signer))));
    return { file: path, publicKey: signer.publicKey };
  },
  print: ({ publicKey }, { file }) => ({
    names: [publicKey],
    text: `wrote ${file}, certificate of ${publicKey}`,
  }),
});

const init = plain(null, {
  name: "init",
  about: "begin: the first root and an empty list of releases, to be signed",
  takes: { file: "where the change goes" },
  options: keyOptions,
  run: async ({ file, ...choices }, context) => {
    const keys = await keysOfChoices(regularFiles(), choices);
    const change = firstChange(context.fleet, keys, validityOf(nodeClock().now(), choices));
    await writeChange(file, change, context);
  },
});

function withPipeline(manifest: AnyManifest, isKept: boolean): AnyManifest {
  if (isKept || isRecipeManifest(manifest)) return manifest;
  const { pipeline: _, ...stripped } = manifest;
  return stripped;
}

/** @throws MODEL_RETIRED, OBJECT_MISSING where documents would leave out what is recorded */
async function withDocuments(manifest: AnyManifest, { call }: PlainContext): Promise<AnyManifest> {
  if (isRecipeManifest(manifest)) return manifest;
  return { ...manifest, documents: documentHashes(await readDocumentSource(call, manifest.versionId)) };
}

const create = plain("releaseManifest", {
  name: "create",
  about: "release a version or a recipe: its manifest and the new list, to be signed",
  takes: { model: "the version that is to be released, or recipe:NAME for a recipe of the fleet's own" },
  options: {
    file: changeFile,
    name: "<name> name of the release (name:version of the model)",
    pipeline: {
      text: "leave out its input pipeline: devices get the model without it",
      flags: "--no-pipeline",
    },
    documents: {
      text: "leave out the hashes of its model card and bill of materials",
      flags: "--no-documents",
    },
  },
  run: async ({ model, file, name, pipeline, documents }, context) => {
    const now = await publishedOf(await context.operations(), context.fleet);
    const made = await context.call("releaseManifest", { model });
    const bare = withPipeline(unsignedManifest(made.manifest), pipeline);
    const manifest = documents ? await withDocuments(bare, context) : bare;
    const change = addRelease(now, name ?? made.model, manifest, validityOf(nodeClock().now()));
    await writeChange(file, change, context);
  },
});

const revoke = plain(null, {
  name: "revoke",
  about: "revoke a release: devices that hear of it do not install the version any more",
  takes: { name: "the release" },
  options: {
    because: { text: "<reason> signed with it; devices show it", required: true },
    file: changeFile,
  },
  run: async ({ name, because, file }, context) => {
    const now = await publishedOf(await context.operations(), context.fleet);
    const validity = validityOf(nodeClock().now());
    await writeChange(file, revokeRelease(context.fleet, now, { name, because }, validity), context);
  },
});

const refresh = plain(null, {
  name: "refresh",
  about: "the same releases, valid for longer",
  options: {
    file: changeFile,
    online: "only the two roles that a key may sign which is kept online",
    days: "<days> days for which it is valid from now on (list 365, that it is the newest 90)",
  },
  run: async ({ file, online, days }, context) => {
    const now = await publishedOf(await context.operations(), context.fleet);
    const validity = validityOf(nodeClock().now(), { days });
    await writeChange(file, refreshReleases(context.fleet, now, validity, online), context);
  },
});

const rotate = plain(null, {
  name: "rotate",
  about: "other keys: signed by those before and the new ones; what is not named stays",
  options: { file: changeFile, ...keyOptions },
  run: async ({ file, ...choices }, context) => {
    const now = await publishedOf(await context.operations(), context.fleet);
    const keys = await keysOfChoices(regularFiles(), choices, keysOf(now.root));
    const validity = validityOf(nodeClock().now(), choices);
    await writeChange(file, rotateKeys(context.fleet, now, keys, validity), context);
  },
});

const sign = plain(null, {
  name: "sign",
  about: "sign a change, a restore or a time with a key; needs no server",
  takes: { file: "the change; its signatures are added to it" },
  options: signerOptions,
  run: async ({ file, ...choices }, context) => {
    const text = await readText(file);
    const restore = parseRestoreFile(text);
    if (restore !== undefined) return signRestoreCommand(file, restore, choices, context);
    const time = parseOwnerTimeFile(text);
    if (time !== undefined) return signTimeCommand(file, time, choices, context);
    const change = parseChange(text);
    for (const line of describeChange(change)) context.output.info(`stemma: ${line}`);
    const signed = signChange(change, await signerOf(regularFiles(), choices));
    await writeDurably(regularFiles(), resolve(file), Buffer.from(changeText(signed.change)));
    printChange(file, signed.change, context, `signed ${signed.roles.join(", ")}`);
  },
});

const publish = plain(null, {
  name: "publish",
  about: "bring what was signed to the server; connected devices get it at once",
  takes: { file: "the signed change" },
  options: { dryRun: "only check that it is complete" },
  run: async ({ file, dryRun }, context) => {
    const text = await readText(file);
    if (parseRestoreFile(text) !== undefined) return publishRestoreCommand(text, dryRun, context);
    if (parseOwnerTimeFile(text) !== undefined) return publishTimeCommand(text, dryRun, context);
    const change = changeText(parseChange(text));
    const answer = await context.call("publishReleases", { change, dryRun });
    context.output.print({
      data: answer,
      names: answer.releases.releases.map(({ name }) => name),
      text: [`${dryRun ? "would publish" : "published"}:`, ...answer.changes].join("\n  "),
    });
  },
});

async function readText(file: string): Promise<string> {
  return new TextDecoder().decode(await regularFiles().read(resolve(file)));
}

async function refuseExisting(path: string): Promise<void> {
  if ((await regularFiles().stat(path)) !== undefined)
    throw new StemmaError("USAGE", `${path} exists. Name another file, or remove that one.`, { path });
}

async function writeChange(file: string, change: ReleaseChange, context: PlainContext): Promise<void> {
  const path = resolve(file);
  await refuseExisting(path);
  await writeDurably(regularFiles(), path, Buffer.from(changeText(change)));
  printChange(file, change, context, describeChange(change).join("\n"));
}

/** Prints a change, each time with what still has to be signed: a file goes from hand to hand. */
function printChange(file: string, change: ReleaseChange, { output }: PlainContext, done: string): void {
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

export const commands = [
  { name: "key", about: "keys of the fleet's owner", commands: [createKey, certificate] },
  ...[init, create, revoke, refresh, rotate, timeCommand, sign, publish],
  ...listCommands,
];
