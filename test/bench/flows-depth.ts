/** What a recovery at the end of a long chain of updates costs beside one at its beginning: `stemma bench flows`. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { unhashedOpaqueModel } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { fineTuned, weights } from "../helpers/related-tensors.js";
import { openHomeAt, type OpenedHome } from "./flows-home.js";
import { flowSteps, updateSize } from "./flows-plan.js";
import type { UpdateKind } from "./flows-standard.js";
import { shapesOf, type BenchModel } from "./model-shapes.js";
import { median, timed, type Named } from "./save-floors.js";

/** Medians of recoveries in turn, in milliseconds: of the first update and of the last. */
export interface FirstAndDeep {
  readonly firstMs: number;
  readonly deepMs: number;
}

export interface DepthFigures extends FirstAndDeep {
  readonly depth: number;
  /** The same from a home that was opened for each recovery. */
  readonly opened: FirstAndDeep;
  /** One tensor of the model, which each full update changes and no partial one. */
  readonly oneTensor: FirstAndDeep;
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
  const home = join(folder, "depth");
  const opened = await openHomeAt(home);
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
    const ends = { first: ids[1] as Hash, deep: ids.at(-1) as Hash };
    const recover = async (
      { repository }: OpenedHome,
      id: Hash,
      layers?: readonly string[],
    ): Promise<number> => await timed(async () => void (await repository.recover(id, { layers })));
    const all = await inTurn(ends, rounds, (id) => recover(opened, id));
    const oneTensor = await inTurn(ends, rounds, (id) => recover(opened, id, ["t050"]));
    await opened.close();
    const fresh = await inTurn(ends, Math.ceil(rounds / 4), async (id) => {
      const again = await openHomeAt(home);
      const tookMs = await recover(again, id);
      await again.close();
      return tookMs;
    });
    return { depth, ...all, opened: fresh, oneTensor };
  } finally {
    await opened.close().catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
  }
}

/** Which is first alternates, so that neither always pays for the garbage of the other. */
async function inTurn(
  ends: { readonly first: Hash; readonly deep: Hash },
  rounds: number,
  recoveryMs: (id: Hash) => Promise<number>,
): Promise<FirstAndDeep> {
  const times: { first: number[]; deep: number[] } = { first: [], deep: [] };
  const turn = ["first", "deep"] as const;
  for (let round = -1; round < rounds; round++)
    for (const which of round % 2 === 0 ? turn : turn.toReversed()) {
      const tookMs = await recoveryMs(ends[which]);
      if (round >= 0) times[which].push(tookMs);
    }
  return { firstMs: median(times.first), deepMs: median(times.deep) };
}
