/**
 * Checkpoints of a fleet's journal, and the cosignatures that witnesses gave. A cosignature is not a fact: witnesses
 * give it again, and a fact would change the state that they cosigned. The newest few are in `checkpoints.json`, which
 * a backup leaves out: after a restore the journal has another name, and is cosigned again.
 */
import { join } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { logLeaf, toHash } from "../../../shared/journal/merkle-log.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import {
  isCosignature,
  journalOrigin,
  parseCheckpoint,
  signCheckpoint,
  type ParsedCheckpoint,
} from "../../../shared/trust/checkpoint.js";
import {
  maxNoteBytes,
  maxNoteSignatures,
  signedNoteText,
  type NoteSignature,
} from "../../../shared/trust/signed-note.js";
import { keysBefore } from "../../access/identity/key-changes.js";
import type { RepositoryContext } from "./context.js";
import type { Home } from "./home.js";

/** The largest number of checkpoints that are kept: witnesses answer at different times. */
const maxKept = 4;

const keptSchema = z.object({
  kind: z.literal("stemma-checkpoints"),
  format: z.literal(1),
  checkpoints: z.array(z.string().max(maxNoteBytes)).max(maxKept),
});

/** A checkpoint with its text; `cosignatures`: those that it has. */
export interface KeptCheckpoint {
  readonly text: string;
  readonly length: number;
  readonly root: Hash;
  readonly cosignatures: readonly NoteSignature[];
}

export interface FleetCheckpoints {
  /** The journal's name for witnesses. */
  origin(): Promise<string>;
  /** The journal as it is now, with the cosignatures of exactly this state. */
  present(): Promise<KeptCheckpoint>;
  /** The kept checkpoint with the most cosignatures, of equal ones the newest, in whose journal this position is. */
  covering(position: number): Promise<KeptCheckpoint | undefined>;
  /**
   * Keeps the cosignatures below a checkpoint of this journal. Nobody here knows the witnesses' keys: who asks for
   * cosignatures verifies them.
   * @throws CHECKPOINT_INVALID, USAGE where there are none
   */
  cosign(text: string): Promise<KeptCheckpoint>;
}

type Parts = Pick<RepositoryContext, "fleet" | "folder" | "files" | "journal" | "state" | "checkpointQueue">;

export function fleetCheckpoints(
  context: Parts,
  { signer, keyChanges }: Pick<Home, "signer" | "keyChanges">,
): FleetCheckpoints {
  const { fleet, journal, state, checkpointQueue } = context;
  const origin = async (): Promise<string> => {
    const [firstKey = signer.publicKey] = keysBefore(keyChanges);
    const restore = state.restores.at(-1)?.factPosition;
    const leaf = restore === undefined ? undefined : toHash(logLeaf(await journal.readEntry(restore)));
    return journalOrigin(firstKey, fleet, leaf);
  };
  const kept = async (): Promise<readonly ParsedCheckpoint[]> => {
    const name = await origin();
    const { length } = journal.head();
    const isOwn = ({ checkpoint }: ParsedCheckpoint): boolean =>
      checkpoint.origin === name &&
      checkpoint.length <= length &&
      journal.rootAt(checkpoint.length) === checkpoint.root;
    return (await readKept(context)).filter(isOwn);
  };
  /** The checkpoint of a state, signed with the present key, and these cosignatures. */
  const signed = (name: string, length: number, cosignatures: readonly NoteSignature[]): KeptCheckpoint => {
    const root = journal.rootAt(length);
    const { note } = parseCheckpoint(signCheckpoint(signer, { origin: name, length, root }));
    const text = signedNoteText({ ...note, signatures: [...note.signatures, ...cosignatures] });
    return { text, length, root, cosignatures };
  };
  return {
    origin,
    present: async () => {
      const [name, all] = [await origin(), await kept()];
      const { length } = journal.head();
      return signed(name, length, cosignaturesOf(all.find(({ checkpoint }) => checkpoint.length === length)));
    },
    covering: async (position) => {
      const name = await origin();
      const able = (await kept()).filter(({ checkpoint }) => checkpoint.length > position);
      const [best] = able.sort(
        (a, b) =>
          cosignaturesOf(b).length - cosignaturesOf(a).length || b.checkpoint.length - a.checkpoint.length,
      );
      return best && signed(name, best.checkpoint.length, cosignaturesOf(best));
    },
    cosign: (text) =>
      checkpointQueue.run(async () => {
        const brought = parseCheckpoint(text);
        const [name, all] = [await origin(), await kept()];
        requireOwn(brought, name, journal);
        const { length } = brought.checkpoint;
        const before = cosignaturesOf(all.find(({ checkpoint }) => checkpoint.length === length));
        const together = signed(name, length, merged(before, cosignaturesOf(brought)));
        const others = all.filter(({ checkpoint }) => checkpoint.length !== length);
        const texts = [
          ...others.map((one) => signed(name, one.checkpoint.length, cosignaturesOf(one))),
          together,
        ];
        await writeKept(context, texts);
        return together;
      }),
  };
}

const cosignaturesOf = (parsed: ParsedCheckpoint | undefined): readonly NoteSignature[] =>
  parsed?.note.signatures.filter(isCosignature) ?? [];

/** Keeps the newest line of each witness; more than fit are refused. @throws USAGE */
function merged(
  before: readonly NoteSignature[],
  brought: readonly NoteSignature[],
): readonly NoteSignature[] {
  if (brought.length === 0)
    throw new StemmaError(
      "USAGE",
      "This checkpoint has no cosignatures below it. Add the lines that the witnesses answered, and bring it again.",
    );
  const lines = new Map([...before, ...brought].map((line) => [`${line.name} ${line.keyId}`, line]));
  if (lines.size >= maxNoteSignatures)
    throw new StemmaError(
      "USAGE",
      `A checkpoint has at most ${maxNoteSignatures - 1} cosignatures. Bring fewer.`,
    );
  return [...lines.values()];
}

/** @throws CHECKPOINT_INVALID */
function requireOwn(
  { checkpoint: { origin, length, root } }: ParsedCheckpoint,
  name: string,
  journal: RepositoryContext["journal"],
): void {
  const why =
    origin !== name
      ? `it names ${origin.slice(0, 200)}, and this journal is ${name}`
      : length > journal.head().length || journal.rootAt(length) !== root
        ? `this journal never had that state of ${length} facts`
        : undefined;
  if (why !== undefined)
    throw new StemmaError(
      "CHECKPOINT_INVALID",
      `The cosignatures were not kept: ${why}. Print the checkpoint again with \`stemma journal checkpoint\`.`,
    );
}

const pathOf = (folder: string): string => join(folder, "checkpoints.json");

/** Reads the kept checkpoints. A damaged file counts as none: witnesses cosign again. */
async function readKept({ files, folder }: Parts): Promise<readonly ParsedCheckpoint[]> {
  const path = pathOf(folder);
  const size = (await files.stat(path))?.size;
  if (size === undefined || size > 2 * maxKept * maxNoteBytes) return [];
  const bytes = await files.read(path);
  try {
    const { checkpoints } = keptSchema.parse(JSON.parse(Buffer.from(bytes).toString()));
    return checkpoints.map(parseCheckpoint);
  } catch {
    return [];
  }
}

async function writeKept({ files, folder }: Parts, all: readonly KeptCheckpoint[]): Promise<void> {
  const newest = [...all].sort((a, b) => b.length - a.length).slice(0, maxKept);
  const value = { kind: "stemma-checkpoints", format: 1, checkpoints: newest.map(({ text }) => text) };
  await writeDurably(files, pathOf(folder), Buffer.from(`${JSON.stringify(value)}\n`));
}
