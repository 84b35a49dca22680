/** Hashes a file piece by piece. */
import { createHash } from "node:crypto";
import { open } from "node:fs/promises";

/** The SHA-256 of a regular file; a link stands for its file. @throws the system's error */
export async function hashFile(path: string): Promise<string> {
  const handle = await open(path, "r");
  try {
    const hash = createHash("sha256");
    for await (const part of handle.createReadStream({ autoClose: false })) hash.update(part as Buffer);
    return hash.digest("hex");
  } finally {
    await handle.close();
  }
}
