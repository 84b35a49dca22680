/** What a recovery at the end of a long chain of updates costs beside one at its beginning: `stemma bench flows`. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { unhashedOpaqueModel } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { fineTuned, weights } from "../helpers/related-tensors.js";
import { openHomeAt } from "./flows-home.js";
import { flowSteps, updateSize } from "./flows-plan.js";
import type { UpdateKind } from "./flows-standard.js";
import { shapesOf, type BenchModel } from "./model-shapes.js";
import { median, type Named } from "./save-floors.js";

export interface DepthFigures {
  readonly depth: number;
  readonly deepMs: number;
  readonly firstMs: number;
}

interface DepthRequest {
  readonly model: BenchModel;
  readonly update: UpdateKind;
  readonly depth: number;
  readonly rounds: number;
  /** A folder of the caller's. */
  readonly folder: string;
}

/** Recoveries of the first and of the last of a chain of updates, in turn. */
export async function measureDepth({
  model,
  update,
  depth,
  rounds,
  folder,
}: DepthRequest): Promise<DepthFigures> {
  const opened = await openHomeAt(join(folder, "depth"));
  try {
    const steps = flowSteps({ nodes: 1, perPhase: depth }).slice(0, depth + 1);
    const ids: Hash[] = [];
    let before: readonly Named[] | undefined;
    for (const [index, step] of steps.entries()) {
      const shapes = shapesOf(model);
      const tensors: readonly Named[] = shapes.map((shape, i) => {
        const known = before?.[i];
        if (known === undefined) return { name: `t${String(i).padStart(3, "0")}`, ...weights(shape, i + 1) };
        if (update === "partial" && i < shapes.length - 2) return known;
        return { name: known.name, ...fineTuned(known, updateSize, 10_000 * index + i) };
      });
      const bases = step.from === undefined ? [] : [ids[step.from] as Hash];
      const { summary } = await opened.repository.save(unhashedOpaqueModel(tensors), { name: "m", bases });
      ids.push(summary.versionId);
      before = tensors;
    }
    const times: { first: number[]; deep: number[] } = { first: [], deep: [] };
    const turn = [
      ["first", ids[1]],
      ["deep", ids.at(-1)],
    ] as const;
    // Which is first alternates, so that neither always pays for the garbage of the other.
    for (let round = -1; round < rounds; round++)
      for (const [which, id] of round % 2 === 0 ? turn : turn.toReversed()) {
        const startedMs = performance.now();
        await opened.repository.recover(id as Hash);
        if (round >= 0) times[which].push(performance.now() - startedMs);
      }
    return { depth, firstMs: median(times.first), deepMs: median(times.deep) };
  } finally {
    await opened.close();
    await rm(folder, { recursive: true, force: true });
  }
}
