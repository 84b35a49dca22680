/**
 * Keeps the catalog in line with the state: built when first asked, then told of changes, rebuilt on demand.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { decodeMetadata } from "../../shared/model/metadata.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Catalog, CatalogEntry } from "../catalog/catalog.js";
import type { CatalogKeeper } from "./context.js";
import { summaryOf, type VersionTable } from "./state/version-table.js";

export function catalogKeeper(
  table: VersionTable,
  objects: Pick<ObjectReader, "read">,
  open: () => Promise<Catalog>,
  log: Log | undefined,
): CatalogKeeper {
  let catalog: Promise<Catalog> | undefined;
  let dirty = new Set<Hash>();
  const updates = new SerialQueue();

  const entriesOf = async (versionIds: Iterable<Hash>): Promise<readonly CatalogEntry[]> => {
    const entries: CatalogEntry[] = [];
    for (const versionId of versionIds) {
      const entry = await entryOf(table, objects, versionId);
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  };
  const build = async (): Promise<Catalog> => {
    const built = await open();
    await built.clear();
    dirty = new Set();
    await built.put(await entriesOf(table.state.versions.keys()));
    const count = await built.count();
    if (count > built.comfortableModels)
      log?.warn("catalog-large", { models: count, comfortable: built.comfortableModels });
    return built;
  };
  const update = async (built: Catalog): Promise<void> => {
    if (dirty.size === 0) return;
    const changed = dirty;
    dirty = new Set();
    await built.put(await entriesOf(changed));
  };
  const rebuild = (): Promise<Catalog> => {
    const building = build();
    catalog = building;
    building.catch(() => {
      if (catalog === building) catalog = undefined;
    });
    return building;
  };
  return {
    changed(versionIds) {
      if (catalog !== undefined) for (const versionId of versionIds) dirty.add(versionId);
    },
    async ready() {
      const built = await (catalog ?? rebuild());
      // A caller sees every change up to now; updates run one after the other, so that no caller sees half of one.
      await updates.run(() => update(built));
      return built;
    },
    rebuild,
  };
}

async function entryOf(
  table: VersionTable,
  objects: Pick<ObjectReader, "read">,
  versionId: Hash,
): Promise<CatalogEntry | undefined> {
  const version = table.state.versions.get(versionId);
  const record = table.records.get(versionId);
  if (version === undefined || record === undefined) return undefined;
  const { name, version: number, position, state, recordedAtMs, tags } = summaryOf(version, record);
  // A retired version's metadata may be gone; it is still found by everything that its record says.
  const metadata =
    record.objects.metadata === undefined || state === "retired"
      ? {}
      : decodeMetadata(await objects.read("metadata", record.objects.metadata));
  return {
    versionId,
    name,
    version: number,
    position,
    state,
    recordedAtMs,
    tags,
    device: record.device,
    line: record.line,
    kind: record.kind,
    approach: record.approach,
    contentId: record.contentId,
    architecture: record.architecture,
    bases: record.bases,
    metadata,
  };
}
