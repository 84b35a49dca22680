/**
 * Homes of many versions, written by the store's own writers, for `stemma bench sizes`: lines that vehicles train, each
 * version a fine-tune of all tensors of the one before it, all of one architecture.
 */
import { openHome } from "../../server/storage/repository/home.js";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { ModelSource } from "../../shared/model/model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { denseChain, modelOf } from "../helpers/dense-chain.js";

export const grownFleet = "bench";

/** Versions of a line. */
const versionsPerLine = 200;
/** Lines whose versions are saved at the same time, so that they share fsyncs, as devices do that report at once. */
const linesAtOnce = 100;

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
      const most = Math.min(versionsPerLine, count - line * versionsPerLine);
      await growLine(repository, `line-${line}`, most, (version) =>
        modelOf(architecture, tensors, line, version),
      );
    }
  };
  await Promise.all(Array.from({ length: linesAtOnce }, work));
  await repository.close();
  await home.close();
}

/** Each version is read back and released, as a server does it. */
async function growLine(
  repository: FleetRepository,
  name: string,
  count: number,
  model: (version: number) => ModelSource,
): Promise<void> {
  let base: Hash | undefined;
  for (let version = 0; version < count; version++) {
    const { summary } = await repository.save(model(version), {
      name,
      metadata: { loss: 1 / (version + 1) },
      ...(base === undefined ? {} : { bases: [base] }),
    });
    base = summary.versionId;
    await repository.confirmStored(base);
    await repository.release(base, "the server read it back");
  }
}
