/**
 * Keeps the index of common prefixes (server/storage/lineage) up to date with the state. It is built at the first
 * query; before every later one it is updated with the versions that changed since. In memory: versions that are not
 * retired, have an architecture that can be read, and do not say themselves that nothing is to be inherited from them.
 */
import { inSteps } from "../../../shared/concurrency/in-steps.js";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { isStemmaError } from "../../../shared/errors.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import {
  decodeMetadata,
  inheritableKey,
  qualityKey,
  type ModelMetadata,
} from "../../../shared/model/metadata.js";
import { layerIdentities } from "../../../shared/model/layer-identity.js";
import type { Architecture } from "../../../shared/model/model.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Log } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { PrefixIndex, PrefixMatch } from "../lineage/prefix-index.js";
import type { IdentityCache } from "./identity-cache.js";
import type { VersionTable } from "./state/version-table.js";

export interface PrefixSource {
  readonly table: VersionTable;
  readonly objects: Pick<ObjectReader, "read">;
  readonly cache: IdentityCache;
  /** Makes an empty index. */
  readonly createIndex: () => PrefixIndex;
  readonly log: Log | undefined;
}

/** The model with the longest common prefix. */
export interface NearestVersion {
  readonly versionId: Hash;
  readonly architecture: Architecture;
  /** Layers of the common prefix. */
  readonly layers: number;
}

export class PrefixKeeper {
  readonly #source: PrefixSource;
  readonly #updates = new SerialQueue();
  #index: PrefixIndex | undefined;
  #changed = new Set<Hash>();

  constructor(source: PrefixSource) {
    this.#source = source;
  }

  /** Notes that these versions changed, so that the next query updates them. */
  changed(versionIds: Iterable<Hash>): void {
    if (this.#index === undefined) return;
    for (const versionId of versionIds) this.#changed.add(versionId);
  }

  /**
   * Finds the version with which an architecture has the most layers in common; of equal ones the one of the highest
   * quality, then the newest.
   * @param except a version that is not looked at
   * @returns the nearest, where any has the first layer too, and how many versions were compared by the index
   */
  async nearest(
    architecture: Architecture,
    except?: Hash,
  ): Promise<{ readonly nearest: NearestVersion | undefined; readonly indexed: number }> {
    const asked = layerIdentities(architecture).filter((identity) => identity !== undefined);
    const { match, indexed } = await this.#updates.run(async () => {
      const index = await this.#upToDate();
      if (except === undefined || !index.has(except))
        return { match: index.longest(asked), indexed: index.size };
      return { match: index.longestExcept(except, asked), indexed: index.size - 1 };
    });
    return { nearest: match === undefined ? undefined : await this.#found(match), indexed };
  }

  async #found({ model, layers }: PrefixMatch): Promise<NearestVersion> {
    const id = this.#architectureOf(model.id);
    return {
      versionId: model.id,
      architecture: decodeArchitecture(await this.#source.objects.read("architecture", id as Hash)),
      layers,
    };
  }

  async #upToDate(): Promise<PrefixIndex> {
    const changed = this.#changed;
    this.#changed = new Set();
    try {
      if (this.#index === undefined) {
        const index = this.#source.createIndex();
        // From here on, changes are noted for the next query.
        this.#index = index;
        await this.#source.cache.load();
        for await (const versionId of inSteps(this.#source.table.state.versions.keys()))
          await this.#put(index, versionId);
      } else for await (const versionId of inSteps(changed)) await this.#put(this.#index, versionId);
      await this.#source.cache.forget();
      return this.#index;
    } catch (error) {
      // The index may contain an incomplete change, so the next query rebuilds it.
      this.#index = undefined;
      throw error;
    }
  }

  async #put(index: PrefixIndex, versionId: Hash): Promise<void> {
    const { state, records } = this.#source.table;
    const record = records.get(versionId);
    const architecture = record?.objects.architecture;
    if (architecture === undefined || state.versions.get(versionId)?.retired !== undefined) {
      index.remove(versionId);
      return;
    }
    // A fleet has few architectures, so their layers are read only when the first version of one comes.
    const isKnown = index.knows(architecture);
    const identities = isKnown ? undefined : await this.#identitiesOf(architecture);
    const isReadable = isKnown || identities !== undefined;
    const { [qualityKey]: quality, [inheritableKey]: isInheritable } = isReadable
      ? await this.#metadataOf(record?.objects.metadata)
      : {};
    if (!isReadable || isInheritable === false) {
      index.remove(versionId);
      return;
    }
    const candidate = {
      id: versionId,
      quality: typeof quality === "number" ? quality : undefined,
      savedAtMs: record?.savedAtMs ?? 0,
    };
    index.add(candidate, architecture, identities);
  }

  /** Empty where a version has none, and where they cannot be read. */
  async #metadataOf(metadata: Hash | undefined): Promise<ModelMetadata> {
    if (metadata === undefined) return {};
    try {
      return decodeMetadata(await this.#source.objects.read("metadata", metadata));
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#source.log?.warn("metadata-unreadable", { metadata, error });
      return {};
    }
  }

  #architectureOf(versionId: Hash): Hash | undefined {
    return this.#source.table.records.get(versionId)?.objects.architecture;
  }

  /**
   * Reads an architecture's identities; undefined where it cannot be read: the query must not fail, and
   * cannot find this version.
   */
  async #identitiesOf(architecture: Hash): Promise<readonly Hash[] | undefined> {
    const cached = this.#source.cache.get(architecture);
    if (cached !== undefined) return cached;
    try {
      const decoded = decodeArchitecture(await this.#source.objects.read("architecture", architecture));
      const identities = layerIdentities(decoded).filter((identity) => identity !== undefined);
      this.#source.cache.add(architecture, identities);
      return identities;
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#source.log?.warn("architecture-unreadable", { architecture, error });
      return undefined;
    }
  }
}
