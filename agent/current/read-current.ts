/**
 * Model out: how the device's own software reads the model a line runs. This is the documented reader
 * and the one that is tested; it needs only Node and may be copied into an application.
 *
 *     <home>/current/<line>          a symbolic link to ../versions/<version id>
 *     <home>/versions/<version id>/  never changes once it is there:
 *         manifest.json              format, versionId, name, contentId, root, file?, files {name: {bytes, sha256}}
 *         model.safetensors          all tensors; in its place a file that is kept as it is, which `file` names
 *         architecture.json          layers and their connections, when the model has an architecture
 *         pipeline.json              how what an application has becomes its inputs, where that is recorded
 *
 * The link is switched atomically, so a program that opens two files through it may get files of two
 * models. Therefore resolve the link once, and open everything below the folder that it named. The last
 * two versions stay at least ten minutes after they were replaced.
 */
import { createHash } from "node:crypto";
import { readFile, readlink } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

export interface CurrentManifest {
  readonly format: 1;
  readonly versionId: string;
  readonly name: string;
  readonly contentId: string;
  readonly root: string;
  /** Name of the file that the model is, where it is one that is kept as it is. */
  readonly file?: string;
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

export interface CurrentModel {
  /** The files of this version; they never change. */
  readonly folder: string;
  readonly manifest: CurrentManifest;
  /** A file of this version, checked against the manifest. */
  read(name: string): Promise<Uint8Array>;
}

/**
 * Max attempts. More than one is needed only if a reader was stopped for so long that its folder was removed.
 */
const tries = 3;

/**
 * Opens the model that `line` runs now.
 * @public Software on the device uses this reader, or a copy of it.
 * @throws Error with code "ENOENT" when the line has no model yet; Error with code "SLOT_CORRUPT" when
 *   a file is not the one the manifest names
 */
export async function readCurrent(home: string, line: string): Promise<CurrentModel> {
  for (let attempt = 1; ; attempt++) {
    const folder = resolve(home, "current", await readlink(join(home, "current", line)));
    try {
      const manifest = JSON.parse(await readFile(join(folder, "manifest.json"), "utf8")) as CurrentManifest;
      if (manifest.format !== 1 || manifest.versionId !== basename(folder))
        throw slotCorrupt(
          folder,
          `manifest.json names version ${manifest.versionId} in format ${manifest.format}`,
        );
      return { folder, manifest, read: (name) => readChecked(folder, manifest, name) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || attempt >= tries) throw error;
    }
  }
}

async function readChecked(folder: string, manifest: CurrentManifest, name: string): Promise<Uint8Array> {
  const expected = manifest.files[name];
  if (expected === undefined) throw slotCorrupt(folder, `the manifest lists no file ${name}`);
  const bytes = await readFile(join(folder, name));
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  if (bytes.length !== expected.bytes || sha256 !== expected.sha256)
    throw slotCorrupt(folder, `${name} is not the file the manifest names`);
  return bytes;
}

function slotCorrupt(folder: string, problem: string): Error {
  return Object.assign(
    new Error(`The model in ${folder} is damaged: ${problem}. Have the agent install it again.`),
    { code: "SLOT_CORRUPT" },
  );
}
