/**
 * Samples from a folder: every complete `*.jsonl` file in it is read, line by line, and then removed. Write
 * a file under another name first and rename it when it is complete. A file that cannot be accepted is
 * renamed to `<name>.refused`, with the reason in a file next to it; one that does not fit now stays for
 * later.
 */
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Files, Log } from "../../shared/ports.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Intake } from "./intake.js";
import { parseJsonLines } from "../../shared/train/datasets/json-lines.js";

const maxFileBytes = 64 * 1024 * 1024;
const suffix = ".jsonl";
/** Codes after which the same file is worth another try later. */
const temporaryCodes = new Set(["SAMPLE_QUOTA", "DISK_FULL", "DISK_BUDGET_EXHAUSTED", "FILE_FAILED"]);

/** Takes in the files that are in the folder now. Returns how many samples are new. */
export async function takeFolderIn(
  files: Files,
  folder: string,
  intake: Pick<Intake, "append">,
  log: Log,
): Promise<number> {
  let taken = 0;
  for (const name of (await files.list(folder)).filter((one) => one.endsWith(suffix))) {
    const path = join(folder, name);
    try {
      const stat = await files.stat(path);
      if (stat?.kind !== "file") continue;
      if (stat.size > maxFileBytes)
        throw new StemmaError(
          "SAMPLE_INVALID",
          `The file ${name} has ${stat.size} bytes; at most ${maxFileBytes} are read. Split it.`,
          { name },
        );
      const bytes = await files.read(path);
      // Named by its content: a file that is read again after a crash adds only what is missing.
      const { accepted } = await intake.append(
        parseJsonLines(new TextDecoder().decode(bytes), name),
        sha256(bytes).slice(0, 24),
      );
      taken += accepted;
      await files.remove(path);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      log.warn("samples-refused", { file: name, code: error.code, text: error.message });
      if (!temporaryCodes.has(error.code)) await putAside(files, path, error.message);
    }
  }
  return taken;
}

async function putAside(files: Files, path: string, reason: string): Promise<void> {
  await files.rename(path, `${path}.refused`);
  await files.remove(`${path}.reason`);
  const reasonFile = await files.open(`${path}.reason`, "create");
  try {
    await reasonFile.write(new TextEncoder().encode(`${reason}\n`), 0);
  } finally {
    await reasonFile.close();
  }
}
