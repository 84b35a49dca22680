/**
 * Repositories like those of ModelHub's evaluation (MH §V-A, MH11), as storage graphs: SD is a modeller that
 * fine-tunes VGG-16 over many versions and checkpoints, driven by a state machine; RD varies its delta
 * ratio, group size and counts. Seeded; it has only shapes and costs, no parameters.
 *
 * Stored sizes follow measurements on real fine-tunes: the bits of a delta grow with the logarithm of the
 * distance trained (10 steps of SGD take 15.9 bits per parameter, 100 take 18.7, 200 take 19.0); a materialised
 * tensor takes 83.5 % of 32 bits. Tensors that were trained separately have no delta edge, because it would not
 * save anything (MH9).
 */
import {
  buildStorageGraph,
  type EdgeInput,
  type SnapshotInput,
  type StorageGraph,
  type VertexInput,
} from "../../server/storage/planner/storage-graph.js";
import { seededNumbers } from "./manual-clock.js";

export interface RepositoryOptions {
  readonly seed: number;
  /** Number of trained versions, in addition to the imported one. */
  readonly versions: number;
  readonly checkpoints: number;
  /** Parametric tensors of a snapshot (the paper's group size). */
  readonly tensors: number;
  /** Raw bytes of a snapshot of the first version. */
  readonly snapshotBytes: number;
  /** Bits per parameter of a delta over a complete fine-tuning. */
  readonly deltaBits: number;
  /** Share of versions that train only the upper layers. */
  readonly frozenShare: number;
  /** By how many bits the deltas of versions differ because of their learning rates, up or down. */
  readonly rateBits: number;
  /** By how many bits deltas of similar tensors differ at random, up or down. */
  readonly noiseBits: number;
  /** Checkpoints at most this far apart have deltas to each other. */
  readonly nearby: number;
  /** Reading, decoding and applying, in bytes per microsecond. */
  readonly readRate: number;
  readonly decodeRate: number;
  readonly applyRate: number;
}

/** SD of the paper: 54 versions of 10 checkpoints of 16 tensors, about 40 MB per stored snapshot. */
export const sdLike: RepositoryOptions = {
  seed: 5,
  versions: 54,
  checkpoints: 10,
  tensors: 16,
  snapshotBytes: 50e6,
  deltaBits: 33,
  frozenShare: 0.9,
  rateBits: 8,
  noiseBits: 1,
  nearby: 3,
  readRate: 120,
  decodeRate: 4000,
  applyRate: 8000,
};

/** VGG-16's convolution and dense layers by number of parameters, biases folded in (MH17). */
const vgg16: readonly number[] = [
  1792, 36928, 73856, 147584, 295168, 590080, 590080, 1180160, 2359808, 2359808, 2359808, 2359808, 2359808,
  102764544, 16781312, 4097000,
];
const labelsOfVgg = 1000;
const labelsOfFaces = 100;
const materialisedBits = 0.835 * 32;

/** What one version did to one tensor. */
export interface TensorLife {
  readonly elements: number;
  /** Not trained: equal to the tensor of the parent. */
  readonly isFrozen: boolean;
  /** Of the same shape as the parent's tensor and trained from it, so that a delta makes sense. */
  readonly isContinued: boolean;
  /** Log₂ of the distance trained over the whole version, relative to a plain fine-tuning. */
  readonly stride: number;
}
/** One training: from the last checkpoint of version `parent` (−1: from scratch) through its own checkpoints. */
export interface GeneratedVersion {
  readonly parent: number;
  readonly checkpoints: number;
  readonly lives: readonly TensorLife[];
  /** Factor of the learning rate from one checkpoint to the next. */
  readonly decay: number;
}

export function generateRepository(options: RepositoryOptions): StorageGraph {
  const random = seededNumbers(options.seed);
  const versions = generateVersions(options, random);
  const vertices: VertexInput[] = [];
  const edges: EdgeInput[] = [];
  const snapshots: SnapshotInput[] = [];
  versions.forEach(({ checkpoints, lives }, version) => {
    for (let checkpoint = 0; checkpoint < checkpoints; checkpoint++) {
      lives.forEach(({ elements }, tensor) => {
        const to = nameOf(version, checkpoint, tensor);
        const byteLength = elements * 4;
        vertices.push({ id: to, byteLength });
        edges.push({
          to,
          kind: "raw",
          ...costs(options, byteLength, materialisedBits + 0.4 * (random() - 0.5), false),
        });
      });
      snapshots.push({
        id: `v${version}/c${checkpoint}`,
        members: lives.map((_, tensor) => nameOf(version, checkpoint, tensor)),
      });
    }
  });
  const delta: AddDelta = (from, to, elements, distance) => {
    const bits = options.deltaBits + Math.log2(distance) + options.noiseBits * 2 * (random() - 0.5);
    if (bits >= materialisedBits - 0.5) return;
    // Both directions cost about the same to store (MH9), not exactly the same.
    edges.push(
      { from, to, kind: "delta", ...costs(options, elements * 4, bits, true) },
      {
        from: to,
        to: from,
        kind: "delta",
        ...costs(options, elements * 4, bits + 0.1 * (random() - 0.5), true),
      },
    );
  };
  versions.forEach((_, v) => addDeltas(options, versions, v, delta));
  return buildStorageGraph({ vertices, edges, snapshots });
}

type AddDelta = (from: string, to: string, elements: number, distance: number) => void;
function nameOf(version: number, checkpoint: number, tensor: number): string {
  return `v${version}/c${checkpoint}/t${tensor}`;
}

function costs(
  { readRate, decodeRate, applyRate }: RepositoryOptions,
  byteLength: number,
  bits: number,
  isDelta: boolean,
): { storageCost: number; recreationCost: number } {
  const storageCost = Math.round((byteLength * Math.max(bits, 0)) / 32) + 64;
  return {
    storageCost,
    recreationCost: Math.round(
      storageCost / readRate +
        (bits > 0 ? byteLength / decodeRate : 0) +
        (isDelta ? byteLength / applyRate : 0),
    ),
  };
}

/**
 * Adds deltas between nearby checkpoints of a run, which starts at its parent's last checkpoint, and between the
 * last checkpoints of related versions.
 */
function addDeltas(
  { nearby }: RepositoryOptions,
  versions: readonly GeneratedVersion[],
  v: number,
  delta: AddDelta,
): void {
  const { parent, lives, decay, checkpoints } = versions[v]!;
  const progress = trainingProgress(checkpoints, decay);
  const last = checkpoints - 1;
  lives.forEach(({ elements, isContinued, isFrozen, stride }, tensor) => {
    const distance = isFrozen ? 0 : 2 ** stride;
    const parentLast = isContinued ? nameOf(parent, versions[parent]!.checkpoints - 1, tensor) : "";
    for (let a = isContinued ? -1 : 0; a < checkpoints; a++) {
      for (let b = a + 1; b < checkpoints && b - a <= nearby; b++)
        delta(
          a < 0 ? parentLast : nameOf(v, a, tensor),
          nameOf(v, b, tensor),
          elements,
          distance * (progress[b]! - (a < 0 ? 0 : progress[a]!)),
        );
    }
    if (!isContinued) return;
    if (checkpoints > nearby) delta(parentLast, nameOf(v, last, tensor), elements, distance);
    for (let sibling = v - 1, found = 0; sibling > parent && found < 3; sibling--) {
      const other = versions[sibling]!;
      if (other.parent !== parent || !other.lives[tensor]!.isContinued) continue;
      found++;
      delta(
        nameOf(sibling, other.checkpoints - 1, tensor),
        nameOf(v, last, tensor),
        elements,
        Math.sqrt(distance ** 2 + (other.lives[tensor]!.isFrozen ? 0 : 4 ** other.lives[tensor]!.stride)),
      );
    }
  });
}

/** The share of the total distance that is trained at each checkpoint. */
export function trainingProgress(checkpoints: number, decay: number): number[] {
  let sum = 0;
  const distances = Array.from({ length: checkpoints }, (_, at) => {
    sum += decay ** at;
    return sum;
  });
  return distances.map((distance) => distance / sum);
}

/**
 * The state machine: starts from a trained VGG-16 that was imported as one snapshot; each further version
 * fine-tunes one of the models so far in one of the ways modellers do.
 */
export function generateVersions(
  { versions: count, checkpoints, tensors, snapshotBytes, rateBits, frozenShare }: RepositoryOptions,
  random: () => number,
): readonly GeneratedVersion[] {
  const sizes = Array.from({ length: tensors }, (_, at) => vgg16[Math.floor((at * vgg16.length) / tensors)]!);
  const scale = snapshotBytes / 4 / sizes.reduce((a, b) => a + b);
  const versions: GeneratedVersion[] = [
    {
      parent: -1,
      checkpoints: 1,
      decay: 1,
      lives: sizes.map((elements) => ({
        elements: Math.max(16, Math.round(elements * scale)),
        isContinued: false,
        isFrozen: false,
        stride: 1.5,
      })),
    },
  ];
  while (versions.length <= count) {
    const draw = random();
    const parent =
      draw < 0.75 ? 0 : draw < 0.9 ? versions.length - 1 : Math.floor(random() * versions.length);
    const from = versions[parent]!;
    const last = tensors - 1;
    // Hyperparameters: learning rate (distance), its decay, and how many of the lower layers are frozen.
    const rate = rateBits * 2 * (random() - 0.5);
    const decay = 0.3 + 0.6 * random();
    const frozenLayers = random() < frozenShare ? Math.floor((0.3 + 0.7 * random()) * tensors) : 0;
    const changedLayer = random() < 0.2 ? Math.floor(random() * (tensors - 1)) : -1;
    const lives = from.lives.map(({ elements }, tensor): TensorLife => {
      const stride = rate + 0.6 * (random() - 0.5);
      if (tensor === last && (parent === 0 || changedLayer === last - 1))
        return {
          elements:
            parent === 0 ? Math.max(16, Math.round((elements * labelsOfFaces) / labelsOfVgg)) : elements,
          isContinued: false,
          isFrozen: false,
          stride,
        };
      // A layer becomes a little wider or narrower: its tensor and that of the next layer change shape.
      if (tensor === changedLayer || (changedLayer >= 0 && tensor === changedLayer + 1))
        return {
          elements: Math.max(16, Math.round(elements * (0.85 + 0.3 * random()))),
          isContinued: false,
          isFrozen: false,
          stride: stride + 1,
        };
      return { elements, isContinued: true, isFrozen: tensor < frozenLayers, stride };
    });
    versions.push({ parent, checkpoints, lives, decay });
  }
  return versions;
}

/** RD: repositories like SD with other delta ratios, group sizes and counts, small enough to plan many times. */
export const rdLike: Readonly<Record<string, RepositoryOptions>> = {
  "small deltas": { ...sdLike, versions: 20, deltaBits: 22, rateBits: 2 },
  "middling deltas": { ...sdLike, versions: 20, deltaBits: 27, rateBits: 4 },
  "large deltas": { ...sdLike, versions: 20, deltaBits: 36 },
  "all layers trained": { ...sdLike, versions: 20, frozenShare: 0 },
  "groups of 4": { ...sdLike, versions: 54, tensors: 4 },
  "groups of 64": { ...sdLike, versions: 8, tensors: 64 },
  "many versions, few checkpoints": { ...sdLike, versions: 100, checkpoints: 2 },
  "few versions, many checkpoints": { ...sdLike, versions: 4, checkpoints: 50 },
  "slow decoding": { ...sdLike, versions: 20, decodeRate: 100, applyRate: 500 },
};
