/**
 * Homes of many versions, written by the store's own writers, for `stemma bench sizes`: lines that vehicles train, each
 * version a fine-tune of all tensors of the one before it, all of one architecture.
 */
import { openHome } from "../../server/storage/repository/home.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { Architecture, ModelSource } from "../../shared/model/model.js";
import { modelSourceOfTensors } from "../../shared/save/model-source.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { architectureOf, savable, type WrittenLayer } from "../helpers/random-architectures.js";

export const grownFleet = "bench";

/** Versions of a line. */
const versionsPerLine = 200;
/** Lines whose versions are saved at the same time, so that they share fsyncs, as devices do that report at once. */
const linesAtOnce = 100;
const tensorShape = [4, 4];
const tensorBytes = 64;

/** Dense layers in a row, each with one small kernel. */
export function denseChain(tensors: number): Architecture {
  const written: WrittenLayer[] = [{ className: "InputLayer", inputs: [] }];
  for (let layer = 0; layer < tensors; layer++)
    written.push({ className: "Dense", config: { units: 4 }, inputs: [layer], weight: tensorShape });
  return savable(architectureOf(written, [tensors]).architecture);
}

/** A model whose tensors no other one has. */
export function modelOf(
  architecture: Architecture,
  tensors: number,
  line: number,
  version: number,
): ModelSource {
  return modelSourceOfTensors(
    architecture,
    Array.from({ length: tensors }, (_, tensor) => {
      const values = new Float32Array(tensorBytes / Float32Array.BYTES_PER_ELEMENT).fill(version);
      values[0] = line;
      values[1] = tensor;
      return { dtype: "F32" as const, shape: tensorShape, bytes: new Uint8Array(values.buffer) };
    }),
  );
}

/** Saves `count` versions of `tensors` tensors in a home that may have some already. */
export async function growHome(path: string, count: number, tensors: number): Promise<void> {
  const home = await openHome(path, nodeHomePorts());
  const repository = await openRepository(home, grownFleet);
  const architecture = denseChain(tensors);
  const lines = Math.ceil(count / versionsPerLine);
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < lines) {
      const line = next++;
      await growLine(
        repository,
        architecture,
        tensors,
        line,
        Math.min(versionsPerLine, count - line * versionsPerLine),
      );
    }
  };
  await Promise.all(Array.from({ length: linesAtOnce }, work));
  await repository.close();
  await home.close();
}

async function growLine(
  repository: FleetRepository,
  architecture: Architecture,
  tensors: number,
  line: number,
  count: number,
): Promise<void> {
  let base: Hash | undefined;
  for (let version = 0; version < count; version++) {
    const { summary } = await repository.save(modelOf(architecture, tensors, line, version), {
      name: `line-${line}`,
      metadata: { loss: 1 / (version + 1) },
      ...(base === undefined ? {} : { bases: [base] }),
    });
    base = summary.versionId;
  }
}
