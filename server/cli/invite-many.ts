/** `stemma device enroll --manifest FILE --to FOLDER`: invitations for all devices of a file, once each. */
import { join, resolve } from "node:path";
import * as z from "zod";
import { mapConcurrent } from "../../shared/concurrency/map-concurrent.js";
import { defined } from "../../shared/defined.js";
import { isStemmaError, StemmaError, type ErrorCode } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import { regularFiles } from "../../shared/files/regular-files.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import { loadInvitation } from "../../shared/trust/certificates/invitation.js";
import { isName } from "../../shared/wire/topics.js";
import { invited, type EnrolChoices } from "./commands/device/enrol-choices.js";
import type { CommandContext } from "./context.js";
import { counted } from "../../shared/printable.js";

const name = z.string().refine(isName, "must be letters, digits, - and _");
const rowSchema = z.object({
  device: name,
  lines: z.array(name).max(64).optional(),
  profile: z.string().min(1).max(64).optional(),
});
export type ManifestRow = z.infer<typeof rowSchema>;

/** Errors that are about one row: the others go on. */
const rowRefusals: readonly ErrorCode[] = [
  "NAME_INVALID",
  "NAME_UNLIKELY",
  "ENROLMENT_INVALID",
  "CLAIMS_OPEN",
  "SHAPE_DIFFERENT",
];
const maxManifestBytes = 64 * 1024 * 1024;
/** Invitations that are made at the same time. */
const atOnce = 8;

/** @throws USAGE naming the line of the file that is wrong */
export function parseManifest(text: string, file: string): readonly ManifestRow[] {
  const lines = text.split(/\r?\n/).map((line, index) => ({ line: line.trim(), number: index + 1 }));
  const used = lines.filter(({ line }) => line !== "" && !line.startsWith("#"));
  const isJson = used[0]?.line.startsWith("{") === true;
  const columns = isJson
    ? []
    : (used.shift()?.line ?? "").split(",").map((cell) => cell.trim().toLowerCase());
  const wrong = (number: number, why: string): StemmaError =>
    new StemmaError("USAGE", `${file}, line ${number}: ${why}. Correct it and run the command again.`, {
      file,
    });
  if (!isJson && !columns.includes("device"))
    throw wrong(1, "the first line names the columns, and one of them is `device`");
  const seen = new Set<string>();
  return used.map(({ line, number }) => {
    const { success, data, error } = rowSchema.safeParse(isJson ? jsonRow(line) : csvRow(line, columns));
    if (!success) throw wrong(number, z.prettifyError(error).replaceAll("\n", " "));
    if (seen.has(data.device)) throw wrong(number, `the device ${data.device} is there twice`);
    seen.add(data.device);
    return data;
  });
}

function jsonRow(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

function csvRow(line: string, columns: readonly string[]): unknown {
  const cells = line.split(",").map((cell) => cell.trim());
  const row = Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ""]));
  const lines = (row["lines"] ?? "").split(/[\s;]+/).filter((each) => each !== "");
  return {
    device: row["device"],
    ...(lines.length === 0 ? {} : { lines }),
    ...(row["profile"] === undefined || row["profile"] === "" ? {} : { profile: row["profile"] }),
  };
}

type Outcome = "invited" | "enrolled" | "there" | "refused";

export async function inviteMany(
  device: string | undefined,
  choices: EnrolChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { manifest = "", to, file, dryRun } = choices;
  if (device !== undefined || file !== undefined || to === undefined)
    throw new StemmaError(
      "USAGE",
      "--manifest names the devices: give --to FOLDER, and neither a device nor --file.",
    );
  const files = regularFiles();
  const path = resolve(manifest);
  if (((await files.stat(path))?.size ?? 0) > maxManifestBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `${manifest} has more than ${maxManifestBytes} bytes. Split it.`,
    );
  const rows = parseManifest(new TextDecoder().decode(await files.read(path)), manifest);
  const folder = resolve(to);
  if (!dryRun) await makeFolderDurably(files, folder);
  const opened = await operations();
  const { fleet } = options;
  // The fleet may not exist before its first device.
  const known = await opened.devices({ fleet }).catch((error: unknown) => {
    if (isStemmaError(error, "NOT_FOUND")) return [];
    throw error;
  });
  const enrolled = new Set(known.filter(({ state }) => state === "enrolled").map((each) => each.device));
  const counts: Record<Outcome, number> = { invited: 0, enrolled: 0, there: 0, refused: 0 };
  const members = invited(choices);
  const inviteRow = async ({ device: name, lines, profile }: ManifestRow): Promise<Outcome> => {
    if (enrolled.has(name)) return "enrolled";
    const path = join(folder, `${name}.invitation.json`);
    if (await isUsable(path, name, members.authority)) return "there";
    const asked = { ...members, ...defined({ profile }) };
    try {
      const invitation = await opened.invite({ fleet, device: name, lines: lines ?? choices.line, ...asked });
      if (!dryRun) await writeDurably(files, path, Buffer.from(`${JSON.stringify(invitation, null, 2)}\n`));
      return "invited";
    } catch (error) {
      if (!isStemmaError(error) || !rowRefusals.includes(error.code)) throw error;
      output.info(`stemma: ${name}: ${error.message}`);
      return "refused";
    }
  };
  let done = 0;
  await mapConcurrent(rows, atOnce, async (row) => {
    counts[await inviteRow(row)]++;
    output.progress(`${++done} of ${counted(rows.length, "device")}`);
  });
  if (counts.refused > 0) process.exitCode = 1;
  output.print({
    data: { devices: rows.length, ...counts, folder },
    names: rows.map((row) => row.device),
    text: `${counted(rows.length, "device")}: ${counts.invited} ${dryRun ? "would be " : ""}invited, ${counts.there} had their invitation, ${counts.enrolled} are enrolled already, ${counts.refused} refused; the invitations are in ${folder}`,
  });
}

/** True if the invitation is there and not at its end; a torn or foreign file is written again. */
async function isUsable(path: string, device: string, authority: string | undefined): Promise<boolean> {
  try {
    const invitation = await loadInvitation(regularFiles(), path);
    return (
      invitation.device === device &&
      invitation.authority === authority &&
      invitation.expiresAtMs > Date.now()
    );
  } catch (error) {
    if (isStemmaError(error)) return false;
    throw error;
  }
}
