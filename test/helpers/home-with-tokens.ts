/** A new home whose server takes devices with tokens, so that a test enrols them without an agent. */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** @returns its path */
export async function newHomeWithTokens(prefix: string): Promise<string> {
  return withTokens(await mkdtemp(join(tmpdir(), prefix)));
}

/** Writes the setting into a home. @returns its path */
export async function withTokens(home: string): Promise<string> {
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "server.json"), JSON.stringify({ format: 1, listen: { deviceTokens: true } }));
  return home;
}
