/** `stemma journal restored`, and `stemma release sign|publish` of what it writes: the owner signs a restore. */
import { resolve } from "node:path";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import {
  describeRestore,
  restoreFileText,
  restoreSignatures,
  signRestore,
  type RestoreApprovalFile,
} from "../../../../shared/trust/releases/restore-approval.js";
import type { CommandContext } from "../../context.js";
import { plain } from "../../plain-command.js";
import { signerOf, type SignerChoices } from "../../release-signer.js";

/** The sentence that `declare-restore` adds where devices of the fleet may demand releases. */
export const ownerSigns =
  "devices that demand releases wait for the signature of the fleet's owner: stemma journal restored --file FILE";

const restored = plain("restoreToSign", {
  name: "restored",
  about: "write the statement of the last restore, for the fleet's owner to sign",
  options: { file: { text: "<file> where the statement goes", required: true } },
  help: `
After a restore (\`stemma storage restore\`, \`journal declare-restore\`, \`journal salvage\`),
devices that demand releases wait for the signature of the fleet's owner: whoever has the
server's key alone cannot put the fleet back. Compare what it says with what you know of the
restore before you sign. The signature holds for this one restore in this journal.

  stemma journal restored --fleet cars --file restored.json
  stemma release sign restored.json --key owner.key --passphrase-file phrase
  stemma release publish restored.json --fleet cars
`,
  run: async ({ file }, { call }) => {
    const path = resolve(file);
    if ((await regularFiles().stat(path)) !== undefined)
      throw new StemmaError("USAGE", `${path} exists. Name another file, or remove that one.`, { path });
    const { file: text, restore, says } = await call("restoreToSign");
    await writeDurably(regularFiles(), path, Buffer.from(text));
    return { file: path, restore, says };
  },
  print: ({ file: path, says }, { file }) => ({
    names: [path],
    text: [...says, `sign it where the key is: stemma release sign ${file}`].join("\n"),
  }),
});
export const commands = [restored];

/** Adds a signature to the file. */
export async function signRestoreCommand(
  file: string,
  restore: RestoreApprovalFile,
  choices: SignerChoices,
  { output }: CommandContext,
): Promise<void> {
  const files = regularFiles();
  const says = describeRestore(restore);
  for (const line of says) output.info(`stemma: ${line}`);
  const signed = signRestore(restore, await signerOf(files, choices));
  await writeDurably(files, resolve(file), Buffer.from(restoreFileText(signed)));
  const { signatures, threshold } = restoreSignatures(signed.root, signed.approval);
  const isComplete = signatures >= threshold;
  output.print({
    data: { file: resolve(file), says, signatures, threshold },
    names: [resolve(file)],
    text: isComplete
      ? `signed; complete: stemma release publish ${file}`
      : `signed; it has ${signatures} of ${threshold} signatures`,
  });
}

/** Brings the signed file to the server. */
export async function publishRestoreCommand(
  file: string,
  dryRun: boolean,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const approved = await (await operations()).approveRestore({ fleet, file, dryRun });
  output.print({
    data: approved,
    names: [String(approved.restore)],
    text: [`${dryRun ? "would publish" : "published"}:`, ...approved.says].join("\n  "),
  });
}
