/**
 * The users' own programs that the owner of this server approved to be run again: a file of the home, programs.json. No
 * operation writes it, and nothing that a device or another server sends; only a command on this machine does.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { describeIssues } from "../../../shared/describe-issues.js";
import { messageOf } from "../../../shared/error-text.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Files } from "../../../shared/ports.js";
import { whoMayChange } from "../../../shared/programs/who-may-change.js";
import { hash, shortText, timeMs } from "../../interface/api/fields.js";
import { programsUnusable } from "./replay-errors.js";

const maxBytes = 1024 * 1024;
const schema = z.strictObject({
  format: z.literal(1),
  programs: z
    .array(
      z.strictObject({
        /** The hash of the program, which is all that decides whether it is run. */
        program: hash,
        /** A version that it trained, as it was called when it was approved. */
        model: z.string().max(400),
        /** The interpreter that runs it here, as it was then; null: it is an executable of its own. */
        interpreter: z.strictObject({ path: z.string().max(4096), sha256: hash }).nullable(),
        because: shortText.or(z.literal("")),
        by: z.string().max(400),
        atMs: timeMs,
      }),
    )
    .max(1000),
});
export type ApprovedProgram = z.infer<typeof schema>["programs"][number];

function pathIn(home: string): string {
  return join(home, "programs.json");
}

/**
 * Reads the approvals, in the order in which they were given.
 * @throws CONFIG_INVALID where the file is malformed, or others than its owner could change it
 */
export async function readApprovedPrograms(files: Files, home: string): Promise<readonly ApprovedProgram[]> {
  const path = pathIn(home);
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return [];
  const problem = await whoMayChange(path, process.getuid?.());
  if (problem !== undefined) throw programsUnusable(path, `${problem.path} ${problem.text}`);
  if (found.size > maxBytes) throw programsUnusable(path, `it has more than ${maxBytes} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(await files.read(path)).toString("utf8"));
  } catch (cause) {
    throw programsUnusable(path, `it is not JSON (${messageOf(cause)})`);
  }
  const checked = schema.safeParse(value);
  if (!checked.success) throw programsUnusable(path, describeIssues(checked.error));
  return checked.data.programs;
}

/** Replaces the approvals durably. @throws DISK_FULL, FILE_FAILED */
export async function writeApprovedPrograms(
  files: Files,
  home: string,
  programs: readonly ApprovedProgram[],
): Promise<void> {
  const text = `${JSON.stringify({ format: 1, programs }, null, 2)}\n`;
  await writeDurably(files, pathIn(home), new TextEncoder().encode(text));
}
