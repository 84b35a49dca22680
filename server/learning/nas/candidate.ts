/**
 * Makes a candidate of a search: its network before the training, and what came of the training. Its tensors
 * can be taken over from another model (EvoStore, EV1). Pure.
 */
import { Streams } from "../../../shared/random/streams.js";
import type { Architecture, Names } from "../../../shared/model/model.js";
import {
  defaultNames,
  writeModelJson,
  type ExportedModelJson,
} from "../../../shared/model/model-json-export.js";
import { safetensorsChunks } from "../../../shared/tensor/safetensors.js";
import { sourceOfTensor, type Tensor } from "../../../shared/tensor/tensor.js";
import { candidateModel, type SearchSpace } from "./search-space.js";
import type { Inherited } from "./search-store.js";

export interface CandidateJob {
  readonly candidate: number;
  readonly choices: readonly number[];
  readonly space: SearchSpace;
  readonly seed: string;
  readonly epochs: number;
  readonly batchSize: number;
  readonly learningRate: number;
}

/** A candidate before its training. */
export interface CandidateStart {
  readonly architecture: Architecture;
  readonly names: Names;
  readonly modelJson: ExportedModelJson;
  /** The tensors in canonical order. */
  readonly tensors: readonly Tensor[];
  /** Indices of the layers that are not trained. */
  readonly frozenLayers: readonly number[];
}

export interface MadeCandidate extends Omit<CandidateStart, "frozenLayers"> {
  /** The accuracy on the held-out samples, in per cent. */
  readonly accuracy: number;
  /** Layers that were not trained. */
  readonly frozen: number;
  readonly trainMs: number;
}

/** Decides whether the training of a candidate goes on. */
export interface CandidateJudge {
  /** The step after which it is asked, once for each candidate. */
  readonly after: number;
  /** @param loss the mean of the steps until then. @returns true where the training is ended */
  isEnded(loss: number): Promise<boolean>;
}

/** Trains candidates, one at a time. */
export interface CandidateTrainer {
  /** The device that trains; undefined: this machine. */
  readonly device?: string | undefined;
  /**
   * @returns undefined where the judge has ended it
   * @throws NOT_A_NUMBER where the candidate cannot be trained, TRAINING_STOPPED where the signal ended it,
   * SEARCH_WORKER_LOST where this trainer can train no more candidates
   */
  train(
    job: CandidateJob,
    inherited: Inherited | undefined,
    options: {
      /** An empty folder, which the caller removes afterwards. */
      readonly workFolder: string;
      readonly signal?: AbortSignal | undefined;
      /** Asked by trainers of this machine alone. */
      readonly judge?: CandidateJudge | undefined;
    },
  ): Promise<MadeCandidate | undefined>;
  /** Called once, after the last training. */
  close?(): Promise<void>;
}

/** @throws SEARCH_SPACE_INVALID for choices whose shapes do not fit together */
export function candidateStart(
  { space, choices, seed, candidate }: Pick<CandidateJob, "space" | "choices" | "seed" | "candidate">,
  inherited?: Pick<Inherited, "tensors" | "frozen">,
): CandidateStart {
  const model = candidateModel(space, choices, new Streams(seed, candidate));
  const { architecture } = model;
  const names = defaultNames(architecture);
  return {
    architecture,
    names,
    modelJson: writeModelJson(architecture, names),
    tensors: model.tensors.map(
      (tensor, leaf) => inherited?.tensors.get(names.leaves[leaf] as string) ?? tensor,
    ),
    frozenLayers: frozenOf(architecture, names, inherited?.frozen ?? []),
  };
}

/** The parameters of the recipe `image-classify` for a candidate, here and on devices. */
export function recipeParameters(
  { epochs, batchSize, learningRate }: Pick<CandidateJob, "epochs" | "batchSize" | "learningRate">,
  frozenLayers: readonly number[],
): Readonly<Record<string, string | number>> {
  return {
    epochs,
    patience: 0,
    shiftPixels: 0,
    batchSize,
    learningRate,
    frozenLayers: frozenLayers.join(","),
  };
}

/** Layers with inherited tensors; the last layer is always trained, also where all others are inherited. */
function frozenOf(architecture: Architecture, names: Names, inherited: readonly string[]): readonly number[] {
  const last = architecture.outputs[0]?.layer;
  const wanted = new Set(inherited);
  return architecture.layers.flatMap((_, layer) =>
    layer !== last && wanted.has(names.layers?.[layer] ?? "") ? [layer] : [],
  );
}

/** Encodes its tensors as a safetensors file, by the names in its model.json. */
export async function fileOf({ tensors, names }: Pick<CandidateStart, "tensors" | "names">): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  const parts = tensors.map((tensor, leaf) => ({
    name: names.leaves[leaf] as string,
    source: sourceOfTensor(tensor),
  }));
  for await (const chunk of safetensorsChunks(parts)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
