/** Refuses programs that a recorder below the C library would record nothing of, before they run. */
import { constants } from "node:fs";
import { access, open, stat } from "node:fs/promises";
import { basename, delimiter, join } from "node:path";
import { StemmaError } from "../../errors.js";

const maxInterpreters = 4;
const machines: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };

/** @throws USAGE for what cannot be recorded, with the reason; NOT_FOUND where there is no such program */
export async function requireRecordable([name = "", ...words]: readonly string[], depth = 0): Promise<void> {
  if (/^stemma(-agent)?(\.mjs)?$/.test(basename(name)) || /^stemma(-agent)?$/.test(basename(words[0] ?? "")))
    throw new StemmaError(
      "USAGE",
      "There is nothing to record of Stemma itself: its engine draws every random number from a seed that it records " +
        "with the version, a fresh one for each training. `stemma replay run` repeats that bit for bit.",
    );
  const path = await findProgram(name);
  const first = await firstBytes(path);
  if (first.subarray(0, 2).toString("latin1") === "#!" && depth < maxInterpreters) {
    const line = first.toString("utf8", 2).split("\n", 1)[0]?.trim().split(/\s+/) ?? [];
    const isEnv = basename(line[0] ?? "") === "env" && line[1] !== undefined && !line[1].startsWith("-");
    return await requireRecordable(isEnv ? line.slice(1, 2) : line.slice(0, 1), depth + 1);
  }
  const reason = whyNotRecordable(first, (await stat(path)).mode);
  if (reason !== undefined)
    throw new StemmaError(
      "USAGE",
      `${path} cannot be recorded: ${reason}, so nothing of it would be recorded and nothing said.`,
      { path },
    );
}

async function findProgram(name: string): Promise<string> {
  const folders = name.includes("/") ? [""] : (process.env["PATH"] ?? "").split(delimiter);
  for (const folder of folders) {
    const path = folder === "" ? name : join(folder, name);
    const isProgram = await access(path, constants.X_OK).then(
      () => stat(path).then((found) => found.isFile()),
      () => false,
    );
    if (isProgram) return path;
  }
  throw new StemmaError("NOT_FOUND", `There is no program ${name}. Name one that can be run, after --.`, {
    name,
  });
}

async function firstBytes(path: string): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4096), 0, 4096, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

const setUserOrGroup = 0o6000;
const interpreterSegment = 3;

/** Judges the header of an ELF file of 64 bits, little-endian (System V ABI, "Program Header"). Pure. */
export function whyNotRecordable(first: Buffer, mode: number): string | undefined {
  if (first.length < 64 || first.readUInt32BE(0) !== 0x7f454c46) return "it is not a program of this system";
  if (first[4] !== 2 || first[5] !== 1 || first.readUInt16LE(18) !== machines[process.arch])
    return "it is for another kind of processor";
  if ((mode & setUserOrGroup) !== 0) return "it runs as another user, for whom no library is loaded";
  const [start, size, count] = [
    Number(first.readBigUInt64LE(32)),
    first.readUInt16LE(54),
    first.readUInt16LE(56),
  ];
  for (let at = start, left = count; left > 0 && at + 4 <= first.length; at += size, left--)
    if (first.readUInt32LE(at) === interpreterSegment) return undefined;
  return "it is statically linked (no PT_INTERP)";
}
