/**
 * Keeps the index of common prefixes (server/storage/lineage) up to date with the state. It is built at the first
 * query; before every later one it is updated with the versions that changed since. In memory: versions that are not
 * retired, have an architecture that can be read, and do not say themselves that nothing is to be inherited from them.
 */
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
import type { PrefixCandidate } from "../lineage/prefix-candidates.js";
import { PrefixIndex, type PrefixMatch } from "../lineage/prefix-index.js";
import type { IdentityCache } from "./identity-cache.js";
import type { VersionTable } from "./state/version-table.js";

export interface PrefixSource {
  readonly table: VersionTable;
  readonly objects: Pick<ObjectReader, "read">;
  readonly cache: IdentityCache;
  readonly log: Log | undefined;
}

/** The model with the longest common prefix. */
export interface NearestVersion {
  readonly versionId: Hash;
  readonly architecture: Architecture;
  /** Layers of the common prefix. */
  readonly layers: number;
}

/** Architectures whose identities are kept: fleets have few, and each takes about a millisecond. */
const maxKept = 256;

export class PrefixKeeper {
  readonly #source: PrefixSource;
  readonly #updates = new SerialQueue();
  readonly #identities = new Map<Hash, readonly Hash[]>();
  #index: PrefixIndex<PrefixCandidate> | undefined;
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

  async #found({ model, layers }: PrefixMatch<PrefixCandidate>): Promise<NearestVersion> {
    const id = this.#architectureOf(model.id);
    return {
      versionId: model.id,
      architecture: decodeArchitecture(await this.#source.objects.read("architecture", id as Hash)),
      layers,
    };
  }

  async #upToDate(): Promise<PrefixIndex<PrefixCandidate>> {
    const changed = this.#changed;
    this.#changed = new Set();
    try {
      if (this.#index === undefined) {
        const index = new PrefixIndex<PrefixCandidate>();
        // From here on, changes are noted for the next query.
        this.#index = index;
        await this.#source.cache.load();
        for (const versionId of [...this.#source.table.state.versions.keys()])
          await this.#put(index, versionId);
      } else for (const versionId of changed) await this.#put(this.#index, versionId);
      await this.#source.cache.forget();
      return this.#index;
    } catch (error) {
      // The index may contain an incomplete change, so the next query rebuilds it.
      this.#index = undefined;
      throw error;
    }
  }

  async #put(index: PrefixIndex<PrefixCandidate>, versionId: Hash): Promise<void> {
    const { state, records } = this.#source.table;
    const version = state.versions.get(versionId);
    const architecture = this.#architectureOf(versionId);
    const identities =
      architecture === undefined || version?.retired !== undefined
        ? undefined
        : await this.#identitiesOf(architecture);
    const record = records.get(versionId);
    const { [qualityKey]: quality, [inheritableKey]: isInheritable } =
      identities === undefined ? {} : await this.#metadataOf(record?.objects.metadata);
    if (identities === undefined || isInheritable === false) {
      index.remove(versionId);
      return;
    }
    index.add(identities, {
      id: versionId,
      quality: typeof quality === "number" ? quality : undefined,
      savedAtMs: record?.savedAtMs ?? 0,
    });
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
    const known = this.#identities.get(architecture);
    if (known !== undefined) return known;
    const cached = this.#source.cache.get(architecture);
    if (cached !== undefined) return cached;
    try {
      const decoded = decodeArchitecture(await this.#source.objects.read("architecture", architecture));
      const identities = layerIdentities(decoded).filter((identity) => identity !== undefined);
      this.#source.cache.add(architecture, identities);
      this.#identities.set(architecture, identities);
      const [oldest] = this.#identities.keys();
      if (this.#identities.size > maxKept && oldest !== undefined) this.#identities.delete(oldest);
      return identities;
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#source.log?.warn("architecture-unreadable", { architecture, error });
      return undefined;
    }
  }
}
