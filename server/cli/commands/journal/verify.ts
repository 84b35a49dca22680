/** `stemma journal verify`: checks a server's journal, an exported one, or a proof against signed heads (RFC 9162). */
import { resolve } from "node:path";
import * as z from "zod";
import { formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { checkFactProof, differs } from "../../../../shared/journal/fact-proof.js";
import { JournalCheck } from "../../../../shared/journal/journal-check.js";
import { verifyConsistency } from "../../../../shared/journal/merkle-log.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { ShownHead } from "../../../../shared/trust/signatures.js";
import type { CommandContext } from "../../context.js";
import { readExported } from "../../exported-journal.js";
import { jsonFile, pinnedKey, shorter, signedBy, type KeyChoices } from "../../journal-trust.js";
import { plain } from "../../plain-command.js";
import { headSchema, headsOfPresent, readWitness } from "../../witness-file.js";

interface VerifyChoices extends KeyChoices {
  readonly witness: string | undefined;
  readonly log: string | undefined;
  readonly proof: string | undefined;
}

const verify = plain(null, {
  name: "verify",
  about: "check that the journal, an exported one, or a proof agrees with signed heads",
  options: {
    witness: "<file> heads that `journal head --witness` kept",
    log: "<file> check this exported journal, without a server",
    proof: "<file> check this proof of a fact, without a server",
    key: "<hex> the server's public key",
    enrolment: "<file> instead of --key: take it from the enrolment of a device",
  },
  help: `
Without --log and --proof the running server (or this home) has to prove that the heads
in the witness file are the start of its journal. --log and --proof need no server:

  stemma journal verify --fleet cars --witness cars.heads
  stemma journal verify --log cars.journal --witness cars.heads
  stemma journal verify --proof proof.json --key 5f0c…

The server's key comes from --key, from an enrolment of a device, or is the one in the
witness file. docs/journal.md says what each of them shows. Exit status 4: it differs.
`,
  run: verifyCommand,
});

async function verifyCommand(choices: VerifyChoices, context: CommandContext): Promise<void> {
  const { log, proof } = choices;
  if (log !== undefined && proof !== undefined)
    throw new StemmaError("USAGE", "Name either an exported journal (--log) or a proof (--proof), not both.");
  if (log !== undefined) return verifyLog(log, choices, context);
  if (proof !== undefined) return verifyProof(proof, choices, context);
  return verifyServer(choices, context);
}

/**
 * Verifies a server's journal; every head of the witness file is asked for, so that the last one alone need
 * not be trusted.
 */
async function verifyServer(
  choices: VerifyChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { fleet } = options;
  const witness =
    choices.witness === undefined
      ? undefined
      : await readWitness(regularFiles(), resolve(choices.witness), fleet);
  const key = (await pinnedKey(choices)) ?? witness?.heads[0]?.publicKey;
  if (key === undefined)
    throw new StemmaError(
      "USAGE",
      "Name what the journal is to agree with: --witness FILE, or the server's key with --key or --enrolment.",
    );
  const opened = await operations();
  const heads = witness === undefined ? [] : headsOfPresent(witness);
  let { head } = await opened.journalHead({ fleet });
  signedBy(key, head);
  for (const kept of heads) {
    if (kept.length > head.length) throw shorter(head, kept.length);
    const answer = await opened.journalHead({ fleet, from: kept.length });
    head = signedBy(key, answer.head);
    if (!verifyConsistency({ from: kept, to: head, proof: answer.consistency ?? [] }))
      throw differs(
        `the journal of ${counted(kept.length, "fact")} whose head was kept at ${formatTime(kept.atMs)} is not the start of the ` +
          `one of ${counted(head.length, "fact")} that the server has now`,
      );
  }
  output.print({
    data: { fleet, head, heads: heads.length },
    names: [head.root],
    text: `fleet ${fleet}: ${counted(head.length, "fact")}; ${heads.length} kept heads are heads of it\nsigned by ${key}`,
  });
}

async function verifyLog(
  path: string,
  choices: VerifyChoices,
  { output }: Pick<CommandContext, "output">,
): Promise<void> {
  const witness =
    choices.witness === undefined ? undefined : await readWitness(regularFiles(), resolve(choices.witness));
  const key = (await pinnedKey(choices)) ?? witness?.heads[0]?.publicKey;
  let check: JournalCheck<ShownHead> | undefined;
  let stated: { readonly fleet: string; readonly head: ShownHead } | undefined;
  const facts = await readExported(resolve(path), (journal) => {
    stated = journal;
    signedBy(key ?? journal.head.publicKey, journal.head);
    const [first] = witness?.heads ?? [];
    if (first !== undefined && first.fleet !== journal.fleet)
      throw differs(`${path} is of the fleet ${journal.fleet}, the kept heads are of ${first.fleet}`);
    const kept = witness === undefined ? [] : headsOfPresent(witness);
    // Heads that were kept after the export say nothing of it.
    check = new JournalCheck([journal.head, ...kept.filter(({ length }) => length <= journal.head.length)]);
    return (entry) => {
      check?.add(entry);
    };
  });
  const { fleet, head } = stated!;
  if (facts !== head.length)
    throw differs(`${path} has ${counted(facts, "fact")}, and its head is of ${head.length}`);
  const [different] = check?.different() ?? [];
  if (different !== undefined)
    throw differs(
      `the first ${counted(different.length, "fact")} in ${path} are not those of a head of ${different.length}`,
    );
  const compared =
    witness === undefined ? 0 : headsOfPresent(witness).filter(({ length }) => length <= facts).length;
  output.print({
    data: { fleet, head, heads: compared },
    names: [head.root],
    text: [
      `fleet ${fleet}: ${counted(facts, "fact agrees with its", "facts agree with their")} signed head and with ${counted(compared, "kept head")}`,
      ...(key === undefined
        ? [`signed by ${head.publicKey}; name the key that you trust with --key, --enrolment or --witness`]
        : []),
    ].join("\n"),
  });
}

const hash = z.custom<Hash>(isHash, "not a hash");
const count = z.number().int().nonnegative();
const proofSchema = z.object({
  kind: z.literal("stemma-fact-proof"),
  format: z.literal(1),
  fleet: z.string(),
  position: count,
  fact: z.string().nullable(),
  leaf: hash,
  log: z.object({ length: count, root: hash }),
  inclusion: z.array(hash).max(64),
  head: headSchema,
  consistency: z.array(hash).max(128),
});

async function verifyProof(
  path: string,
  choices: VerifyChoices,
  { output }: Pick<CommandContext, "output">,
): Promise<void> {
  const read = proofSchema.safeParse(await jsonFile(path));
  if (!read.success)
    throw new StemmaError(
      "USAGE",
      `${path} is not a proof of a fact. \`stemma journal prove FACT --file FILE\` writes one.`,
    );
  const proof = read.data;
  const witness =
    choices.witness === undefined
      ? undefined
      : await readWitness(regularFiles(), resolve(choices.witness), proof.fleet);
  const key = (await pinnedKey(choices)) ?? witness?.heads[0]?.publicKey;
  if (key === undefined)
    throw new StemmaError(
      "USAGE",
      "Name the server's key with --key, --enrolment or --witness: without it a proof shows nothing.",
    );
  signedBy(key, proof.head);
  checkFactProof(proof);
  const kept = witness?.heads.filter(({ length }) => [proof.log.length, proof.head.length].includes(length));
  for (const { length, root } of kept ?? [])
    if (root !== (length === proof.log.length ? proof.log.root : proof.head.root))
      throw differs(`the proof is about another journal than the kept head of ${counted(length, "fact")}`);
  if (kept?.length === 0)
    throw new StemmaError(
      "USAGE",
      `No head in ${choices.witness!} has the length that the proof is about. Ask for a proof with ` +
        `\`stemma journal prove ${proof.position} --witness ${choices.witness!}\`.`,
    );
  output.print({
    data: proof,
    names: [String(proof.position)],
    text: [
      proof.fact ?? `fact ${proof.position} (${proof.leaf})`,
      `is fact ${proof.position} of ${proof.log.length} in the journal of ${proof.fleet}` +
        (kept === undefined
          ? ", which the server signed"
          : ", which the server signed and a kept head confirms"),
    ].join("\n"),
  });
}

export const commands = [verify];
