/**
 * Answers which model has the longest common prefix with an architecture. The index of architectures
 * (server/storage/lineage) is in memory with the best model of each, which the table of candidates on the disk knows:
 * a fleet has few architectures. It is built at the first query, and before every later one brought up to date.
 */
import { inSteps } from "../../../shared/concurrency/in-steps.js";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { isStemmaError } from "../../../shared/errors.js";
import { layerIdentities } from "../../../shared/model/layer-identity.js";
import type { Architecture } from "../../../shared/model/model.js";
import type { Log } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CandidateTable } from "../lineage/candidate-table.js";
import type { PrefixCandidate, PrefixIndex, PrefixMatch } from "../lineage/prefix-index.js";
import type { DecodedArchitectures } from "../../../shared/model/kept-architectures.js";
import type { IdentityCache } from "./identity-cache.js";
import type { VersionTable } from "./state/version-table.js";

export interface PrefixSource {
  readonly table: Pick<VersionTable, "state" | "records">;
  readonly candidates: CandidateTable;
  readonly architectures: DecodedArchitectures;
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

/** The index, and the model that it has of each architecture. */
interface BestModels {
  readonly index: PrefixIndex;
  readonly best: Map<Hash, Hash>;
}

export class PrefixKeeper {
  readonly #source: PrefixSource;
  readonly #updates = new SerialQueue();
  #models: BestModels | undefined;
  /** Architectures whose models changed since the index was brought up to date. */
  #changed = new Set<Hash>();

  constructor(source: PrefixSource) {
    this.#source = source;
  }

  /** Call when facts about these versions were applied. */
  changed(versionIds: Iterable<Hash>): void {
    const { table, candidates } = this.#source;
    for (const versionId of versionIds) {
      const version = table.state.versions.get(versionId);
      const architecture = this.#architectureOf(versionId);
      if (version === undefined || architecture === undefined) continue;
      if (version.retired !== undefined) candidates.remove(version.position, architecture, versionId);
      if (this.#models !== undefined) this.#changed.add(architecture);
    }
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
    const { table, candidates } = this.#source;
    const exceptAt = except === undefined ? undefined : table.state.versions.positionOf(except);
    const isCandidate = exceptAt !== undefined && candidates.has(exceptAt);
    const match = await this.#updates.run(async () => {
      const models = await this.#upToDate();
      return isCandidate ? this.#longestExcept(models, except as Hash, asked) : models.index.longest(asked);
    });
    return {
      nearest: match === undefined ? undefined : await this.#found(match),
      indexed: candidates.size - (isCandidate ? 1 : 0),
    };
  }

  /**
   * Finds the version that weights rank first. All versions with a layer in common are looked at.
   * @param weights such as prefix=1,quality=0.5
   * @param except as of `nearest`
   */
  async ranked(
    architecture: Architecture,
    weights: string,
    except?: Hash,
  ): Promise<NearestVersion | undefined> {
    const asked = new Set(layerIdentities(architecture).filter((identity) => identity !== undefined));
    const { table, candidates, cache } = this.#source;
    const matches: PrefixMatch[] = [];
    await this.#updates.run(async () => {
      await cache.load();
      for await (const id of inSteps(candidates.architectures())) {
        const layers = (await this.#identitiesOf(id))?.filter((identity) => asked.has(identity)).length ?? 0;
        if (layers === 0) continue;
        for await (const model of inSteps(candidates.of(id))) {
          const isThere = table.state.versions.get(model.id)?.retired === undefined;
          if (isThere && model.id !== except) matches.push({ model, layers });
        }
      }
      await cache.forget();
    });
    const { bestSource, readSourceWeights } = await import("../lineage/source-weights.js");
    const best = bestSource(matches, asked.size, readSourceWeights(weights));
    return best === undefined ? undefined : await this.#found(best);
  }

  /** The second best model of an architecture takes the place of the best one where that is left out. */
  #longestExcept({ index, best }: BestModels, except: Hash, asked: readonly Hash[]): PrefixMatch | undefined {
    const architecture = this.#architectureOf(except) as Hash;
    const second = best.get(architecture) === except ? this.#bestOf(architecture, except) : undefined;
    if (second !== undefined) index.add(second, architecture);
    const match = index.longestExcept(except, asked);
    if (second !== undefined) index.remove(second.id);
    return match;
  }

  async #found({ model, layers }: PrefixMatch): Promise<NearestVersion> {
    const id = this.#architectureOf(model.id);
    return {
      versionId: model.id,
      architecture: await this.#source.architectures.read(id as Hash),
      layers,
    };
  }

  async #upToDate(): Promise<BestModels> {
    const { candidates, cache, createIndex } = this.#source;
    const changed = this.#changed;
    this.#changed = new Set();
    try {
      let models = this.#models;
      const isNew = models === undefined;
      // From here on, changes are noted for the next query.
      this.#models = models ??= { index: createIndex(), best: new Map() };
      if (isNew) await cache.load();
      for await (const architecture of inSteps(isNew ? candidates.architectures() : changed))
        await this.#put(models, architecture);
      await cache.forget();
      return models;
    } catch (error) {
      // The index may contain an incomplete change, so the next query rebuilds it.
      this.#models = undefined;
      throw error;
    }
  }

  /** Puts the best model of an architecture into the index. */
  async #put({ index, best }: BestModels, architecture: Hash): Promise<void> {
    const before = best.get(architecture);
    // An architecture's layers are read when its first model comes.
    const identities = index.knows(architecture) ? undefined : await this.#identitiesOf(architecture);
    const candidate =
      identities === undefined && !index.knows(architecture) ? undefined : this.#bestOf(architecture);
    if (candidate?.id === before) return;
    if (candidate !== undefined) {
      index.add(candidate, architecture, identities);
      best.set(architecture, candidate.id);
    } else best.delete(architecture);
    if (before !== undefined) index.remove(before);
  }

  /** A version that was retired in the moment before a process ended may still be in the table. */
  #bestOf(architecture: Hash, except?: Hash): PrefixCandidate | undefined {
    const { table, candidates } = this.#source;
    for (;;) {
      const candidate = candidates.best(architecture, except);
      if (candidate === undefined) return undefined;
      const version = table.state.versions.get(candidate.id);
      if (version?.retired === undefined) return candidate;
      candidates.remove(version.position, architecture, candidate.id);
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
      const decoded = await this.#source.architectures.read(architecture);
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
