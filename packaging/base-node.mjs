// Fetches the Node that an executable begins with: a package of the npm registry, pinned in base-node.json by its hash
// and by the hash of the program in it. It is kept in .build/base-node, so a second time needs no network.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const ownFolder = dirname(fileURLToPath(import.meta.url));
const kept = join(dirname(ownFolder), ".build/base-node");
const pinned = JSON.parse(await readFile(join(ownFolder, "base-node.json"), "utf8"));

export const nodeVersion = pinned.version;
export const targets = Object.keys(pinned.targets);

const hashOf = async (path, algorithm, encoding) =>
  createHash(algorithm)
    .update(await readFile(path))
    .digest(encoding);

/** @throws where the registry gives something else than what is pinned */
async function fetchInto(folder, target) {
  const { package: name, integrity } = pinned.targets[target];
  const spec = `${name}@${pinned.version}`;
  const { stdout } = await run("npm", [
    "pack",
    spec,
    "--json",
    "--prefer-offline",
    "--fetch-retries=0",
    "--fetch-timeout=60000",
    "--pack-destination",
    folder,
  ]);
  const file = join(folder, JSON.parse(stdout)[0].filename);
  const actual = `sha512-${await hashOf(file, "sha512", "base64")}`;
  if (actual !== integrity)
    throw new Error(
      `${spec} has the hash ${actual}, and packaging/base-node.json pins ${integrity}. Do not use it.`,
    );
  await run("tar", ["xzf", file, "-C", folder, "package/bin/node", "package/LICENSE"]);
  await rm(file);
}

/** Paths of the Node program for a target and of its licences, checked against what is pinned. */
export async function baseNode(target) {
  const folder = join(kept, `${pinned.version}-${target}`);
  const program = join(folder, "package/bin/node");
  const isRight = async () =>
    (await hashOf(program, "sha256", "hex").catch(() => undefined)) === pinned.targets[target].sha256;
  if (!(await isRight())) {
    await mkdir(kept, { recursive: true });
    const temporary = await mkdtemp(join(kept, "fetch-"));
    try {
      await fetchInto(temporary, target);
      await chmod(join(temporary, "package/bin/node"), 0o755);
      await rm(folder, { recursive: true, force: true });
      await rename(temporary, folder);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    if (!(await isRight()))
      throw new Error(
        `The Node in ${pinned.targets[target].package} is not the one that packaging/base-node.json pins.`,
      );
  }
  return { program, licence: join(folder, "package/LICENSE") };
}
