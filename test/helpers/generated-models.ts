/**
 * The models of a generated repository (generated-repository.ts) with parameters: 32-bit weights that move
 * between checkpoints so far that a codec needs about as many bits as the repository's options state for a
 * delta. Seeded. Generates the models serially and keeps only the last checkpoint of each version.
 */
import type { Tensor } from "../../shared/tensor/tensor.js";
import {
  generateVersions,
  trainingProgress,
  type RepositoryOptions,
  type TensorLife,
} from "./generated-repository.js";
import { seededNumbers } from "./manual-clock.js";
import { normal, uniform, weights } from "./related-tensors.js";

export type NamedTensor = Tensor & { readonly name: string };
export interface GeneratedModel {
  readonly id: string;
  /** The checkpoint before it, or the last checkpoint of the version that training started from. */
  readonly base: string | undefined;
  readonly tensors: readonly NamedTensor[];
}

/** Bits per parameter of a delta in which every weight moves by the tensor's root mean square (measured). */
const bitsOfFullMove = 27;
const columns = 64;

export function* generateModels(options: RepositoryOptions): Generator<GeneratedModel> {
  const ends: { readonly id: string; readonly tensors: readonly NamedTensor[] }[] = [];
  for (const [v, { parent, checkpoints, lives, decay }] of generateVersions(
    options,
    seededNumbers(options.seed),
  ).entries()) {
    const from = parent < 0 ? undefined : ends[parent];
    const progress = trainingProgress(checkpoints, decay);
    let base = from?.id;
    let tensors = lives.map((life, t): NamedTensor => ({
      name: `layer${String(t).padStart(2, "0")}`,
      ...firstTensor(life, from?.tensors[t], seedOf(options.seed, v, 0, t)),
    }));
    for (let checkpoint = 0; checkpoint < checkpoints; checkpoint++) {
      const share = progress[checkpoint]! - (checkpoint === 0 ? 0 : progress[checkpoint - 1]!);
      tensors = tensors.map((tensor, t) => {
        const life = lives[t]!;
        return life.isFrozen || from === undefined
          ? tensor
          : {
              ...tensor,
              ...moved(
                tensor,
                share * 2 ** (options.deltaBits + life.stride - bitsOfFullMove),
                seedOf(options.seed, v, checkpoint + 1, t),
              ),
            };
      });
      const id = `v${v}/c${checkpoint}`;
      yield { id, base, tensors };
      base = id;
    }
    ends.push({ id: base!, tensors });
  }
}

function seedOf(...parts: readonly number[]): number {
  return parts.reduce((seed, part) => (Math.imul(seed ^ part, 0x9e3779b1) + 0x7f4a7c15) | 0, 17);
}

function firstTensor(
  { elements, isContinued }: TensorLife,
  parent: Tensor | undefined,
  seed: number,
): Tensor {
  return isContinued && parent !== undefined
    ? parent
    : weights([Math.max(1, Math.round(elements / columns)), Math.min(elements, columns)], seed);
}

/** Moves every weight by about `reach` times the root mean square of all weights, and keeps that root mean square. */
function moved(tensor: Tensor, reach: number, seed: number): Tensor {
  const draw = uniform(seed);
  const values = new Float32Array(tensor.bytes.slice().buffer);
  const size = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
  const kept = 1 / Math.sqrt(1 + reach * reach);
  for (let i = 0; i < values.length; i++) values[i] = kept * (values[i]! + reach * size * normal(draw));
  return { dtype: tensor.dtype, shape: tensor.shape, bytes: new Uint8Array(values.buffer) };
}
