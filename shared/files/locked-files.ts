/** The files of a home that this process has locked, as the journal needs them. */
import { lstat } from "node:fs/promises";
import type { Files, HomeWriter } from "../ports.js";
import { fileError, systemCode } from "./file-error.js";

/** Adds to the files what the lock knows: who the writer is, and which file a path leads to. */
export function lockedFiles(files: Files, { assertHeld }: Pick<HomeWriter, "assertHeld">): Files {
  return { ...files, writer: { assertHeld, identityOf } };
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await lstat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return undefined;
    throw fileError(error, "get the identity of", path);
  }
}
