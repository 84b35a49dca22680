/** `stemma release time`, and `stemma release sign|publish` of what it writes: the owner states what time it is. */
import { resolve } from "node:path";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { parseMetadata } from "../../../../shared/trust/releases/metadata.js";
import {
  describeOwnerTime,
  ownerTimeFileText,
  ownerTimeSignatures,
  signOwnerTime,
  unsignedOwnerTime,
  type OwnerTimeFile,
} from "../../../../shared/trust/releases/owner-time.js";
import type { CommandContext } from "../../context.js";
import { plain } from "../../plain-command.js";
import { published } from "../../release-choices.js";
import { signerOf, type SignerChoices } from "../../release-signer.js";

export const timeCommand = plain("releases", {
  name: "time",
  about: "write the statement of what time it is, for devices that learned a wrong one; to be signed",
  options: {
    file: { text: "<file> where the statement goes", required: true },
    at: "<time> another time than this machine's clock shows, as 2027-01-31T12:00:00Z",
    number: "<n> number of the statement (one more than the last one that was published)",
  },
  help: `
A device whose server's clock was wrong refuses the certificates that this server has later.
It then fetches this statement, checks its signature with the keys of releases that it pinned,
and goes on from the time in it. Look at the time before you sign: devices believe it.

  stemma release time --file time.json
  stemma release sign time.json --key owner.key --passphrase-file phrase
  stemma release publish time.json
`,
  run: async ({ file, at, number }, { call, fleet }) => {
    const path = resolve(file);
    if ((await nodeFiles().stat(path)) !== undefined)
      throw new StemmaError("USAGE", `${path} exists. Name another file, or remove that one.`, { path });
    const answer = await call("releases");
    const statement = unsignedOwnerTime({
      fleet,
      number: number === undefined ? (answer.ownerTime?.number ?? 0) + 1 : numberOf(number),
      timeMs: at === undefined ? nodeClock().now() : timeOf(at),
    });
    const root = parseMetadata("root", published(answer, fleet).roots.at(-1) ?? "");
    await writeDurably(nodeFiles(), path, Buffer.from(ownerTimeFileText({ root, statement })));
    return { file: path, ...statement.signed, says: describeOwnerTime(statement) };
  },
  print: ({ file: path, says }, { file }) => ({
    names: [path],
    text: [...says, `sign it where the key is: stemma release sign ${file}`].join("\n"),
  }),
});

function numberOf(text: string): number {
  const number = Number(text);
  if (/^\d{1,15}$/.test(text) && number >= 1) return number;
  throw new StemmaError("USAGE", `--number ${text} is not a whole number from 1. Correct it.`);
}

function timeOf(text: string): number {
  const timeMs = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ? Date.parse(text) : Number.NaN;
  if (timeMs >= 0) return timeMs;
  throw new StemmaError("USAGE", `--at ${text} is not a time. Write it in UTC, as 2027-01-31T12:00:00Z.`);
}

/** Adds a signature to the file. */
export async function signTimeCommand(
  file: string,
  time: OwnerTimeFile,
  choices: SignerChoices,
  { output }: CommandContext,
): Promise<void> {
  const files = nodeFiles();
  const says = describeOwnerTime(time.statement);
  for (const line of says) output.info(`stemma: ${line}`);
  const signed = signOwnerTime(time, await signerOf(files, choices));
  await writeDurably(files, resolve(file), Buffer.from(ownerTimeFileText(signed)));
  const { signatures, threshold } = ownerTimeSignatures(signed.root.signed, signed.statement);
  output.print({
    data: { file: resolve(file), says, signatures, threshold },
    names: [resolve(file)],
    text:
      signatures >= threshold
        ? `signed; complete: stemma release publish ${file}`
        : `signed; it has ${signatures} of ${threshold} signatures`,
  });
}

/** Brings the signed file to the server. */
export async function publishTimeCommand(
  file: string,
  dryRun: boolean,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const answer = await (await operations()).publishOwnerTime({ fleet, file, dryRun });
  output.print({
    data: answer,
    names: [String(answer.number)],
    text: [`${dryRun ? "would publish" : "published"}:`, ...answer.says].join("\n  "),
  });
}
