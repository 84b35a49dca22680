/**
 * A space of architectures for images: stages in a row, each with options to choose from (docs/architecture-search.md).
 * A candidate is one choice per stage, as the option's index. Pure.
 */
import * as z from "zod";
import type { Streams } from "../../../shared/random/streams.js";
import { GraphBuilder, type NodeId } from "../../../shared/train/builders/graph-builder.js";
import type { StoredModel } from "../../../shared/train/recipes/recipe.js";
import { searchSpaceInvalid } from "./search-errors.js";

const positive = z.number().int().min(1);
const activation = z.enum(["linear", "relu", "tanh", "sigmoid"]).optional();

const plainBlock = z.union([
  z.strictObject({ convolution: positive.max(512), kernel: positive.max(11), activation }),
  z.strictObject({ depthwise: positive.max(11) }),
  z.strictObject({ dense: positive.max(4096), activation }),
  z.strictObject({ pool: z.enum(["max", "average", "global"]) }),
  z.strictObject({ batchNorm: z.literal(true) }),
  z.strictObject({ dropout: z.number().min(0.01).max(0.9) }),
]);
/** The sum of its input and of what the blocks make of it, which must have the same shape. */
const residualBlock = z.strictObject({ residual: z.array(plainBlock).min(1).max(8) });
const block = z.union([plainBlock, residualBlock]);

export const spaceSchema = z.strictObject({
  format: z.literal(1),
  /** Height, width and channels of an image. */
  input: z.tuple([positive.max(1024), positive.max(1024), positive.max(64)]),
  classes: z.number().int().min(2).max(10_000),
  stages: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[a-z0-9-]{1,32}$/),
        /** Each is a list of blocks; an empty one leaves the stage out. */
        options: z.array(z.array(block).max(8)).min(1).max(64),
      }),
    )
    .min(1)
    .max(64),
});

export type SearchSpace = z.infer<typeof spaceSchema>;
type Block = z.infer<typeof block>;

/** @throws SEARCH_SPACE_INVALID */
export function readSearchSpace(value: unknown, where: string): SearchSpace {
  const read = spaceSchema.safeParse(value);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw searchSpaceInvalid(where, `${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`.trim());
  }
  const space = read.data;
  const names = space.stages.map(({ name }) => name);
  if (new Set(names).size !== names.length) throw searchSpaceInvalid(where, "two stages have the same name");
  // Every option of a stage must fit the others: shapes depend on all choices before.
  for (const [stage, { options }] of space.stages.entries())
    for (const option of options.keys()) {
      const choices = space.stages.map((_, each) => (each === stage ? option : 0));
      try {
        new CandidateBuilder(space).head(choices);
      } catch (error) {
        if (!(error instanceof Unfit)) throw error;
        throw searchSpaceInvalid(
          where,
          `option ${option} of the stage ${names[stage]} does not fit: ${error.message}`,
        );
      }
    }
  return space;
}

/** Number of different candidates. */
export function candidatesIn({ stages }: SearchSpace): number {
  return stages.reduce((product, { options }) => product * options.length, 1);
}

/**
 * The candidate's architecture with initial weights, each drawn from the stream of its path.
 * @throws SEARCH_SPACE_INVALID for choices whose shapes do not fit together
 */
export function candidateModel(
  space: SearchSpace,
  choices: readonly number[],
  streams: Streams,
): StoredModel {
  const builder = new CandidateBuilder(space);
  try {
    return builder.build(choices, streams);
  } catch (error) {
    if (!(error instanceof Unfit)) throw error;
    throw searchSpaceInvalid(
      "The space",
      `the choices ${choices.join(",")} do not fit together: ${error.message}`,
    );
  }
}

class Unfit extends Error {}

interface Place {
  readonly node: NodeId;
  /** The shape without the batch dimension. */
  readonly shape: readonly number[];
}

class CandidateBuilder {
  readonly #graph = new GraphBuilder();
  readonly #space: SearchSpace;

  constructor(space: SearchSpace) {
    this.#space = space;
  }

  build(choices: readonly number[], streams: Streams): StoredModel {
    return this.#graph.build(this.head(choices), streams);
  }

  head(choices: readonly number[]): NodeId {
    const { input, stages, classes } = this.#space;
    let place: Place = { node: this.#graph.input(input), shape: input };
    for (const [index, { options }] of stages.entries())
      for (const each of options[choices[index] ?? 0] ?? []) place = this.#add(place, each);
    const flat = this.#flat(place);
    return this.#graph.dense(flat.node, flat.shape[0] as number, classes);
  }

  #flat({ node, shape }: Place): Place {
    if (shape.length === 1) return { node, shape };
    return { node: this.#graph.flatten(node), shape: [shape.reduce((product, each) => product * each, 1)] };
  }

  #add(place: Place, each: Block): Place {
    if (!("residual" in each)) return this.#addPlain(place, each);
    let inner = place;
    for (const one of each.residual) inner = this.#addPlain(inner, one);
    if (inner.shape.join() !== place.shape.join())
      throw new Unfit(`a residual block makes [${inner.shape.join(", ")}] of [${place.shape.join(", ")}]`);
    return { node: this.#graph.sum([place.node, inner.node]), shape: place.shape };
  }

  #addPlain({ node, shape }: Place, each: Exclude<Block, { residual: unknown }>): Place {
    const graph = this.#graph;
    const channels = shape.at(-1) as number;
    if ("dense" in each) {
      const flat = this.#flat({ node, shape });
      const { dense: units } = each;
      return {
        node: graph.dense(flat.node, flat.shape[0] as number, units, each.activation ?? "relu"),
        shape: [units],
      };
    }
    if ("batchNorm" in each) return { node: graph.batchNorm(node, channels), shape };
    if ("dropout" in each) return { node: graph.dropout(node, each.dropout), shape };
    const [height = 0, width = 0] = shape;
    if (shape.length !== 3) throw new Unfit("an image is needed after a dense or global block");
    if ("convolution" in each) {
      const { convolution: filters, kernel } = each;
      const options = { filters, kernel, activation: each.activation ?? "relu" };
      return { node: graph.convolution(node, channels, options), shape: [height, width, filters] };
    }
    if ("depthwise" in each) return { node: graph.depthwise(node, channels, each.depthwise, 1), shape };
    if (each.pool === "global") return { node: graph.globalAverage(node), shape: [channels] };
    if (height < 2 || width < 2) throw new Unfit(`an image of ${height} by ${width} cannot be pooled again`);
    const pooled = [Math.floor(height / 2), Math.floor(width / 2), channels];
    return { node: each.pool === "max" ? graph.maxPool(node) : graph.averagePool(node), shape: pooled };
  }
}
