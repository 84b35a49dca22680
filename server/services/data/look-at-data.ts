/** Finds by looking how data are read, where nobody says it. */
import { open } from "node:fs/promises";

const canonicalMagic = /^stemma-dataset-[12]\0/;
const headBytes = 64 * 1024;

/** True for a file in canonical form, as `stemma data fetch` writes it; false also where nothing can be read. */
export async function isCanonicalFile(path: string): Promise<boolean> {
  return canonicalMagic.test((await headOf(path)).subarray(0, 32).toString("latin1"));
}

async function headOf(path: string): Promise<Buffer> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return Buffer.alloc(0);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    return buffer.subarray(0, bytesRead);
  } catch {
    return Buffer.alloc(0);
  } finally {
    await file.close();
  }
}
