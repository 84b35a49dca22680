/** Assets of a training: files whose bytes must be the same before and after each run (CH §3.2; CH6). */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { StemmaError } from "../../../shared/errors.js";
import { fileError } from "../../../shared/files/file-error.js";
import { requireRegular } from "../../../shared/files/not-regular.js";

export interface Asset {
  readonly path: string;
  readonly sha256: string;
}

/** @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED */
export async function hashAssets(paths: readonly string[]): Promise<readonly Asset[]> {
  return await Promise.all(paths.map(async (path) => ({ path, sha256: await hashOf(path) })));
}

/** @param when such as "after run 3" @throws FILE_CHANGED */
export async function requireUnchanged(assets: readonly Asset[], when: string): Promise<void> {
  const now = await hashAssets(assets.map(({ path }) => path));
  for (const [at, { path, sha256 }] of now.entries())
    if (assets[at]?.sha256 !== sha256)
      throw new StemmaError(
        "FILE_CHANGED",
        `The asset ${path} is another one ${when}, so the runs cannot be compared. Let the program ` +
          "leave it as it is, or name no asset that it writes.",
        { path },
      );
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  try {
    requireRegular(await stat(path), path);
    await pipeline(createReadStream(path), hash);
  } catch (error) {
    throw fileError(error, "read the asset", path);
  }
  return hash.digest("hex");
}
