/** Compares files of recovered models with what the vehicles have of them. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";

export type SavedModel = Pick<
  VersionSummary,
  "versionId" | "name" | "version" | "record" | "tensorBytes" | "claim"
>;

/**
 * The oldest and the newest version of every line, and some at random, in the order of the list.
 * @param random returns a whole number from 0 to below its argument
 */
export function pickVersions(
  models: readonly SavedModel[],
  extra: number,
  random: (below: number) => number,
): readonly SavedModel[] {
  const ends = new Map<string, SavedModel[]>();
  for (const model of models) {
    const line = `${model.record.device}/${model.record.line}/${model.name}`;
    ends.set(line, [ends.get(line)?.[0] ?? model, model]);
  }
  const picked = new Set([...ends.values()].flat());
  const others = models.filter((model) => !picked.has(model));
  for (let count = 0; count < extra && others.length > 0; count++)
    for (const model of others.splice(random(others.length), 1)) picked.add(model);
  return models.filter((model) => picked.has(model));
}

/** SHA-256 of a safetensors file's tensor bytes in file order, without the header: its names may differ. */
function tensorDigest(bytes: Buffer): string {
  const begin = 8 + Number(bytes.readBigUInt64LE(0));
  return createHash("sha256").update(bytes.subarray(begin)).digest("hex");
}

/**
 * True if a recovered file has the bytes of the vehicle's own file; undefined where the vehicle no longer has one.
 * @param home of the vehicle's agent
 */
export async function isOwnFile(file: string, home: string, versionId: string): Promise<boolean | undefined> {
  const versions = join(home, "versions");
  const names = await readdir(versions).catch((): string[] => []);
  const name = names.find((entry) => entry.startsWith(versionId));
  if (name === undefined) return undefined;
  const own = await readFile(join(versions, name, "model.safetensors")).catch(() => undefined);
  return own && tensorDigest(own) === tensorDigest(await readFile(file));
}
