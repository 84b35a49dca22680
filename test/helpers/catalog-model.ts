/**
 * A plain picture of a fleet's models: what is live, which leases hold what, and which tensors are therefore
 * needed. For tests that compare a repository with it.
 */
import { layerIdentities } from "../../shared/model/layer-identity.js";
import type { Architecture } from "../../shared/model/model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { prefixByAlgorithm1, type IdentifiedArchitecture } from "./prefix-by-algorithm-1.js";
import {
  candidateArchitecture,
  savable,
  searchedChoices,
  type RandomNumbers,
} from "./random-architectures.js";

export interface PlainModel {
  readonly id: Hash;
  /** Index in the pool of architectures. */
  readonly pool: number;
  /** Tensor by path. */
  readonly tensors: ReadonlyMap<string, Hash>;
  readonly quality: number | undefined;
  readonly savedAtMs: number;
}

/** Of equally long prefixes: that of the better model, one without a quality last; of the newer; of the smaller id. */
function isPreferred(a: PlainModel, b: PlainModel): boolean {
  if (a.quality !== b.quality)
    return b.quality === undefined || (a.quality !== undefined && a.quality > b.quality);
  return a.savedAtMs === b.savedAtMs ? a.id < b.id : a.savedAtMs > b.savedAtMs;
}

export interface PlainLease {
  readonly id: string;
  readonly ancestor: PlainModel;
  /** The child's architecture. */
  readonly pool: number;
  /** Path in the child, and the ancestor's tensor. */
  readonly taken: ReadonlyMap<string, Hash>;
  readonly expiresAtMs: number;
}

/** Cells of a candidate: few, so that a model is saved in a millisecond or two. */
const cells = 5;

/** Architectures of a search, and the length of the common prefix of every pair by Algorithm 1. */
export class ArchitecturePool {
  readonly #pool: readonly IdentifiedArchitecture[];
  readonly #layers = new Map<number, number>();

  constructor(count: number, random: RandomNumbers) {
    this.#pool = searchedChoices(count, random).map((choices) => {
      const architecture = savable(candidateArchitecture(choices.slice(0, cells)));
      return { architecture, identities: layerIdentities(architecture) };
    });
  }

  get size(): number {
    return this.#pool.length;
  }

  architecture(index: number): Architecture {
    return (this.#pool[index] as IdentifiedArchitecture).architecture;
  }

  prefix(child: number, ancestor: number): readonly (readonly [child: number, ancestor: number])[] {
    return prefixByAlgorithm1(
      this.#pool[child] as IdentifiedArchitecture,
      this.#pool[ancestor] as IdentifiedArchitecture,
    );
  }

  prefixLayers(child: number, ancestor: number): number {
    const key = child * this.#pool.length + ancestor;
    let layers = this.#layers.get(key);
    if (layers === undefined) this.#layers.set(key, (layers = this.prefix(child, ancestor).length));
    return layers;
  }
}

/** What the repository must contain. */
export class PlainCatalog {
  readonly live: Map<Hash, PlainModel>;
  readonly leases: Map<string, PlainLease>;

  constructor(from?: PlainCatalog) {
    this.live = new Map(from?.live);
    this.leases = new Map(from?.leases);
  }

  /** The live model with the longest prefix, by looking at each. */
  nearest(
    pool: ArchitecturePool,
    asked: number,
    except?: Hash,
  ): { readonly model: PlainModel; readonly layers: number } | undefined {
    let best: { model: PlainModel; layers: number } | undefined;
    for (const model of this.live.values()) {
      if (model.id === except) continue;
      const layers = pool.prefixLayers(asked, model.pool);
      const isBetter =
        best === undefined ||
        layers > best.layers ||
        (layers === best.layers && isPreferred(model, best.model));
      if (layers > 0 && isBetter) best = { model, layers };
    }
    return best;
  }

  /** Every tensor of a live model, and what leases hold that have not expired. */
  neededTensors(nowMs: number): ReadonlySet<Hash> {
    const needed = new Set<Hash>();
    for (const { tensors } of this.live.values()) for (const tensor of tensors.values()) needed.add(tensor);
    for (const { taken, expiresAtMs } of this.leases.values())
      if (expiresAtMs > nowMs) for (const tensor of taken.values()) needed.add(tensor);
    return needed;
  }
}
