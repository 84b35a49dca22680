/**
 * `stemma journal head|prove|export`: what shows that nobody rewrote a fleet's journal (RFC 9162), to be kept and
 * checked outside the server.
 */
import { resolve } from "node:path";
import { formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { replaceDurably, writeDurably } from "../../../../shared/files/durable-write.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { checkFactProof, differs } from "../../../../shared/journal/fact-proof.js";
import { verifyConsistency } from "../../../../shared/journal/merkle-log.js";
import type { ShownHead } from "../../../../shared/trust/signatures.js";
import type { CallOutput, ServerOperations } from "../../../interface/api/server-operations.js";
import { firstLineOf } from "../../exported-journal.js";
import { pinnedKey, shorter, signedBy, type KeyChoices } from "../../journal-trust.js";
import { plain, type PlainContext } from "../../plain-command.js";
import { refuseExisting } from "../../stream-file.js";
import { appendWitness, readWitness, type WitnessFile } from "../../witness-file.js";

const head = plain("journalHead", {
  name: "head",
  about: "the signed head of the journal, to keep where the server cannot change it",
  options: {
    witness: "<file> add the head to this file, if the server proves that its journal only grew",
    afterRestore: {
      text: "with --witness: begin anew, because you know that the server was put back to an older state",
      default: undefined,
    },
    key: "<hex> the server's public key; with a new witness file",
    enrolment: "<file> instead of --key: take it from the enrolment of a device",
  },
  help: `
A head stands for all facts of the journal up to it. Whoever keeps heads outside the
server notices when the server's history is rewritten, whoever does it: with --witness
the server must prove that the last head in the file is the start of its journal now;
then the new head is added. Run it from another machine, every hour or day:

  stemma journal head --fleet cars --witness cars.heads --server https://stemma.example

What was taken away before anybody kept a later head cannot be noticed.
`,
  run: headCommand,
});

interface HeadChoices extends KeyChoices {
  readonly witness: string | undefined;
  readonly afterRestore: boolean;
}

async function headCommand(choices: HeadChoices, { output, operations, fleet }: PlainContext): Promise<void> {
  const files = regularFiles();
  const witness =
    choices.witness === undefined ? undefined : await readWitness(files, resolve(choices.witness), fleet);
  const key = (await pinnedKey(choices)) ?? witness?.heads[0]?.publicKey;
  const { head, since } = await provenHead(await operations(), {
    fleet,
    key,
    witness: choices.afterRestore ? undefined : witness,
  });
  if (witness !== undefined)
    await appendWitness(files, witness, {
      fleet,
      atMs: Date.now(),
      ...head,
      ...(choices.afterRestore ? { afterRestore: true } : {}),
    });
  output.print({
    data: { fleet, ...head },
    names: [head.root],
    text: [
      `fleet ${fleet}: ${counted(head.length, "fact")}`,
      `root      ${head.root}`,
      `signed by ${head.publicKey}`,
      ...(since === undefined
        ? []
        : [`the journal of ${counted(since.length, "fact")} kept at ${formatTime(since.atMs)} is its start`]),
      ...(witness === undefined ? [] : [`kept in ${witness.path} (head ${witness.heads.length + 1})`]),
    ].join("\n"),
  });
}

/**
 * The present head, proven to come after the newest one of the witness.
 * @throws HEAD_SIGNATURE_INVALID, JOURNAL_DIFFERS
 */
async function provenHead(
  operations: Pick<ServerOperations, "journalHead">,
  {
    fleet,
    key,
    witness,
  }: {
    readonly fleet: string;
    readonly key: string | undefined;
    readonly witness: WitnessFile | undefined;
  },
): Promise<{ readonly head: ShownHead; readonly since: WitnessFile["heads"][number] | undefined }> {
  const since = witness?.heads.at(-1);
  let answer: CallOutput<"journalHead">;
  try {
    answer = await operations.journalHead({ fleet, ...defined({ from: since?.length }) });
  } catch (error) {
    // Another error may have this code; then the head itself tells.
    const { head } = await operations.journalHead({ fleet });
    if (since === undefined || head.length >= since.length) throw error;
    throw shorter(head, since.length);
  }
  const head = signedBy(key ?? answer.head.publicKey, answer.head);
  if (since === undefined) return { head, since };
  if (!verifyConsistency({ from: since, to: head, proof: answer.consistency ?? [] }))
    throw differs(
      `the journal of ${counted(since.length, "fact")} whose head was kept at ${formatTime(since.atMs)} is not the start of ` +
        `the one of ${counted(head.length, "fact")} that the server has now`,
    );
  return { head, since };
}

const prove = plain("proveFact", {
  name: "prove",
  about: "the proof that a fact is in the journal, which anybody can check",
  takes: { fact: "<fact> a model (the fact that recorded it), or the position of a fact" },
  options: {
    file: "<file> write the proof here, for `journal verify --proof`",
    witness: "<file> prove it in the journal of the newest head in this file",
    length: { text: "<count> prove it in the journal of so many facts", read: Number },
    force: { text: "overwrite the file", default: undefined },
  },
  run: async ({ fact, file, witness, length, force }, { call, fleet }) => {
    const kept =
      witness === undefined ? undefined : await readWitness(regularFiles(), resolve(witness), fleet);
    if (kept?.heads.length === 0)
      throw new StemmaError(
        "USAGE",
        `There are no heads in ${kept.path}. Add one: stemma journal head --witness FILE`,
      );
    if (length !== undefined && !Number.isSafeInteger(length))
      throw new StemmaError("USAGE", "--length takes a whole number of facts.");
    if (file !== undefined) await refuseExisting(resolve(file), force);
    const asked = kept?.heads.at(-1)?.length ?? length;
    const proof = await call("proveFact", {
      ...(/^\d{1,15}$/.test(fact) ? { position: Number(fact) } : { model: fact }),
      ...defined({ length: asked }),
    });
    checkFactProof(proof);
    const whole = { kind: "stemma-fact-proof", format: 1, fleet, ...proof };
    if (file !== undefined)
      await writeDurably(regularFiles(), resolve(file), Buffer.from(`${JSON.stringify(whole, null, 2)}\n`));
    return whole;
  },
  print: (proof, { file }) => ({
    names: [String(proof.position)],
    text: [
      proof.fact ?? "(an enrolment: its text is not shown, since it has the hash of a secret)",
      `is fact ${proof.position} of ${proof.log.length}, by ${proof.inclusion.length} hashes`,
      `root      ${proof.log.root}`,
      `signed by ${proof.head.publicKey}`,
      ...(file === undefined
        ? []
        : [`the proof is in ${file}; check it anywhere: stemma journal verify --proof ${file}`]),
    ].join("\n"),
  }),
});

const exporting = plain("journalHead", {
  name: "export",
  about: "write every fact exactly as it is in the journal, with the signed head",
  options: {
    file: {
      text: "<file> where to write it; it has hashes of devices' tokens",
      required: true,
    },
    force: { text: "overwrite the file", default: undefined },
  },
  run: async ({ file, force }, { call, fleet, output }) => {
    const path = resolve(file);
    await refuseExisting(path, force);
    const { head: last } = await call("journalHead");
    await replaceDurably(regularFiles(), path, async (target) => {
      let at = 0;
      const write = async (text: string): Promise<void> => {
        const bytes = Buffer.from(text, "utf8");
        await target.write(bytes, at);
        at += bytes.length;
      };
      await write(firstLineOf(fleet, last));
      for (let from = 0; from < last.length;) {
        const { facts } = await call("journalEntries", {
          from,
          limit: Math.min(10_000, last.length - from),
        });
        if (facts.length === 0) throw differs(`the server has fewer facts than its head of ${last.length}`);
        await write(`${facts.join("\n")}\n`);
        from += facts.length;
        output.progress(`${from} of ${counted(last.length, "fact")}`);
      }
    });
    output.endProgress();
    return { fleet, file: path, head: last };
  },
  print: ({ fleet, file: path, head: { length } }, { file }) => ({
    names: [path],
    text: `${length} facts of ${fleet} are in ${file}; check them anywhere: stemma journal verify --log ${file}`,
  }),
});

export const commands = [head, prove, exporting];
