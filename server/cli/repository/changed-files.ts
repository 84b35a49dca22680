/** Files of the current version that are others in the working folder by now, and are not staged. */
import { readFile, stat } from "node:fs/promises";
import { objectId } from "../../../shared/tensor/hash.js";
import type { PlainContext } from "../plain-command.js";
import { trackedFiles, type Current } from "./current-version.js";
import { pathBelow, type Repository } from "./find-repository.js";
import { maxAttachedBytes } from "./look-at-file.js";
import { carriedKinds, type StagedKind } from "./sniff-kind.js";
import type { StagingList } from "./staging-list.js";

interface ChangedFile {
  readonly kind: StagedKind;
  /** The path relative to the root. */
  readonly path: string;
  readonly byteLength: number;
}

interface ChangedQuestion {
  readonly list: StagingList;
  readonly current: Current;
  readonly call: PlainContext["call"];
}

/** A file that is not there is not among them: the next version takes over what the current one has. */
export async function changedFiles(
  { root }: Repository,
  { list, current: { version }, call }: ChangedQuestion,
): Promise<readonly ChangedFile[]> {
  if (version === undefined || version.state === "retired") return [];
  const changed: ChangedFile[] = [];
  for (const { kind, path, hash, name } of trackedFiles(await call("model", { model: version.versionId }))) {
    const isDecided = list.entries.some((entry) => entry.path === path) || list.forgotten.includes(name);
    const file = isDecided || !carriedKinds.has(kind) ? undefined : pathBelow(root, path);
    const found = file === undefined ? undefined : await stat(file).catch(() => undefined);
    if (file === undefined || found?.isFile() !== true || found.size > maxAttachedBytes) continue;
    const bytes = await readFile(file).catch(() => undefined);
    if (bytes !== undefined && objectId("attachment", bytes) !== hash)
      changed.push({ kind, path, byteLength: bytes.length });
  }
  return changed;
}
