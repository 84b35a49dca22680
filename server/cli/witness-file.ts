/**
 * Heads of a journal that somebody keeps outside the server, one JSON line each, oldest first. Each was proven to be a
 * later state of the same journal when it was added, so that a server cannot rewrite what was before without being
 * noticed. A last line that is cut short was never relied on and is removed.
 */
import { dirname } from "node:path";
import * as z from "zod";
import { StemmaError } from "../../shared/errors.js";
import type { Files } from "../../shared/ports.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { keyChangesSchema } from "../../shared/trust/key-change.js";
import { verifyHead, type ShownHead } from "../../shared/trust/signatures.js";

const hash = z.custom<Hash>(isHash, "not a hash");
export const headSchema = z.object({
  length: z.number().int().nonnegative(),
  chain: hash,
  root: hash,
  publicKey: z.string(),
  signature: z.string(),
  keyChanges: keyChangesSchema.exactOptional(),
}) satisfies z.ZodType<ShownHead>;

const witnessed = headSchema.extend({
  kind: z.literal("stemma-journal-head"),
  format: z.literal(1),
  fleet: z.string(),
  /** The time when it was added, by the clock of the machine that added it. */
  atMs: z.number(),
  /** The journal before it was given up: the server was put back to an older state. */
  afterRestore: z.literal(true).optional(),
});
export type WitnessedHead = z.infer<typeof witnessed>;

export interface WitnessFile {
  readonly path: string;
  /** Oldest first. */
  readonly heads: readonly WitnessedHead[];
  /** Bytes of complete lines. */
  readonly end: number;
}

const maxBytes = 64 * 1024 * 1024;

/**
 * Empty where there is no file yet. Each head is signed by the key of the first one, or by one that it leads to.
 * @throws HEAD_SIGNATURE_INVALID, JOURNAL_DIFFERS where a line is not what was written, or of another fleet
 */
export async function readWitness(files: Files, path: string, fleet?: string): Promise<WitnessFile> {
  const stat = await files.stat(path);
  if (stat === undefined) return { path, heads: [], end: 0 };
  if (stat.size > maxBytes) throw damaged(path, `it has ${stat.size} bytes`);
  const bytes = Buffer.from(await files.read(path));
  const end = bytes.lastIndexOf("\n") + 1;
  const heads = bytes
    .subarray(0, end)
    .toString("utf8")
    .split("\n")
    .slice(0, -1)
    .map((line, index) => headOf(line, `${path}, line ${index + 1}`));
  const [first] = heads;
  for (const head of heads) {
    verifyHead(first?.publicKey ?? "", head);
    if (head.fleet !== (fleet ?? first?.fleet))
      throw damaged(
        path,
        `it has heads of the fleet ${head.fleet}, not of ${fleet ?? first?.fleet ?? "none"}`,
      );
  }
  return { path, heads, end };
}

/** The heads after the last restore: those of the journal as it is now. */
export function headsOfPresent({ heads }: WitnessFile): readonly WitnessedHead[] {
  return heads.slice(
    Math.max(
      0,
      heads.findLastIndex(({ afterRestore }) => afterRestore === true),
    ),
  );
}

/** Resolves when the head is durable. */
export async function appendWitness(
  files: Files,
  { path, end }: WitnessFile,
  head: Omit<WitnessedHead, "kind" | "format">,
): Promise<void> {
  const line = `${JSON.stringify({ kind: "stemma-journal-head", format: 1, ...head })}\n`;
  const isNew = (await files.stat(path)) === undefined;
  const file = await files.open(path, "append");
  try {
    await file.truncate(end);
    await file.write(Buffer.from(line), end);
    await file.sync();
  } finally {
    await file.close();
  }
  if (isNew) await files.syncFolder(dirname(path));
}

function headOf(line: string, where: string): WitnessedHead {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw damaged(where, "it is not JSON");
  }
  const read = witnessed.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw damaged(where, `${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`.trim());
}

function damaged(where: string, why: string): StemmaError {
  return new StemmaError(
    "JOURNAL_DIFFERS",
    `${where} does not have heads of this journal: ${why}. Name the file that \`stemma journal head --witness\` wrote, ` +
      "or put it back from a copy.",
  );
}
