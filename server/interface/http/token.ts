/** The bearer token of the HTTP port: made once, kept in the home, readable by its owner only. */
import { timingSafeEqual } from "node:crypto";
import { chmod, open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import type { Random } from "../../../shared/ports.js";

export function httpTokenPath(home: string): string {
  return join(home, "http-token");
}

/** Reads the home's token; undefined where no server ever ran on it. */
export async function readHttpToken(home: string): Promise<string | undefined> {
  const text = await readFile(httpTokenPath(home), "utf8").catch(() => undefined);
  return text === undefined || text.trim() === "" ? undefined : text.trim();
}

/** Reads the home's token, and creates it when there is none. @throws FILE_FAILED */
export async function ensureHttpToken(home: string, random: Random): Promise<string> {
  const present = await readHttpToken(home);
  if (present !== undefined) return present;
  const token = Buffer.from(random.bytes(32)).toString("base64url");
  const path = httpTokenPath(home);
  try {
    const file = await open(path, "w", 0o600);
    try {
      await file.writeFile(`${token}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await chmod(path, 0o600);
  } catch (cause) {
    throw new StemmaError(
      "FILE_FAILED",
      `The HTTP token could not be written to ${path}. Check the folder's rights and free space.`,
      { cause, path },
    );
  }
  return token;
}

/** True if an Authorization header carries the token. Takes the same time for every wrong token of the right length. */
export function bearerMatches(header: string | undefined, token: string): boolean {
  if (header === undefined || !header.startsWith("Bearer ")) return false;
  const given = Buffer.from(header.slice(7));
  const expected = Buffer.from(token);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
