/**
 * Finds the versions that the server may code an offered version against. Those are its bases that are
 * complete here, then the line's active and newest versions, then the bases of all these. Best first; the
 * server takes the first that fits.
 */
import type { SaveRecord } from "../../shared/model/model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { HeldVersion } from "../../shared/wire/coding/references.js";
import { maxReferences } from "../../shared/wire/limits.js";
import type { Outbox } from "../outbox/outbox.js";
import { activeVersion } from "../outbox/outbox-state.js";
import { readVersion } from "../outbox/read-version.js";
import type { DownloadTerms } from "./downloads.js";

export async function sharedVersions(
  outbox: Pick<Outbox, "state" | "entry" | "newest" | "objects">,
  line: string,
  { bases }: Pick<SaveRecord, "bases">,
): Promise<Pick<DownloadTerms, "references" | "tensors">> {
  const held = new Map<Hash, HeldVersion>();
  const add = async (ids: readonly (Hash | undefined)[]): Promise<void> => {
    for (const id of ids) {
      if (id === undefined || held.has(id) || held.size >= maxReferences || !serverHas(outbox, id)) continue;
      const version = await readVersion(outbox.objects, id);
      if (version?.leaves.every(({ tensor }) => outbox.objects.has(tensor)) === true) held.set(id, version);
    }
  };
  await add(bases);
  await add([activeVersion(outbox.state, line), outbox.newest(line)?.versionId]);
  await add([...held.values()].flatMap((version) => version.bases));
  return {
    references: [...held.keys()],
    tensors: new Set([...held.values()].flatMap(({ leaves }) => leaves.map(({ tensor }) => tensor))),
  };
}

/** True if the server can code against a version: it has recorded it, and this device still has it. */
function serverHas(outbox: Pick<Outbox, "entry">, id: Hash): boolean {
  const entry = outbox.entry(id);
  return entry !== undefined && entry.standing !== "pending";
}
