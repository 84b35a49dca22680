/** Operations on training engines: list, approve, remove. An approved engine is code that this server runs. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { decodeEngineArchive, engineObjectId } from "../../../shared/train/engine-archive.js";
import { ownEngine } from "../../../shared/train/own-engine.js";
import { trainInChild } from "../../../shared/train/train-in-child.js";
import { jobFormat } from "../../../shared/train/training.js";
import { requireEngine, unpackEngine } from "../../../shared/train/unpack-engine.js";
import { notOneEngine } from "../../learning/replay/replay-errors.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import type { EngineSummary } from "../../storage/repository/answers/code-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { engineNotRun } from "./model-errors.js";

type EngineOperations = Pick<ServerOperations, "engines" | "approveEngine" | "removeEngine">;

export function engineOperations(context: OperationsContext): EngineOperations {
  const { fleets } = context;
  return {
    engines: async ({ fleet }) => (await fleets.get(fleet)).engines(),
    approveEngine: async (input) => {
      const archive = new Uint8Array(Buffer.from(input.archive, "base64"));
      const { engine: engineId, jobForm } = decodeEngineArchive(archive);
      if (input.expected !== undefined) requireEngine(engineId, input.expected);
      const engine = engineObjectId(archive);
      const isDry = input.dryRun === true;
      if (!isDry) await approve(context, input, archive);
      return { engine, engineId, jobForm, approved: !isDry };
    },
    removeEngine: async ({ fleet, engine, because = "" }) => {
      const repository = await fleets.get(fleet);
      await repository.removeEngine(findEngine(repository, engine).engine, because);
      return repository.engines();
    },
  };
}

async function approve(
  context: OperationsContext,
  { fleet, because = "" }: Pick<OperationInput<"approveEngine">, "fleet" | "because">,
  archive: Uint8Array,
): Promise<void> {
  const repository = await context.fleets.get(fleet, { create: true });
  // The engine of this build has been run by its tests.
  const isOwn = engineObjectId(archive) === (await ownEngine().catch(() => undefined))?.object;
  if (!isOwn) await runOnce(context, archive);
  await repository.storeEngine(archive, { source: "approval", because });
}

/**
 * Unpacks an engine and lets it run a short training, so that one that does not run here is not approved.
 * @throws ENGINE_INVALID
 */
async function runOnce({ home }: OperationsContext, archive: Uint8Array): Promise<void> {
  await mkdir(workFolderOf(home), { recursive: true });
  const workFolder = await mkdtemp(join(workFolderOf(home), "engine-"));
  const engineFolder = join(workFolder, "engine");
  try {
    const { engine } = await unpackEngine(nodeFiles(), archive, { folder: engineFolder });
    const { result } = await trainInChild(
      {
        format: jobFormat,
        recipe: "battery-soh",
        parameters: { epochs: 1 },
        dataset: { reader: "battery-simulated", parameters: {} },
        seed: "1",
        invocation: 0,
      },
      { workFolder, engineFolder },
    );
    requireEngine(result.engine, engine);
  } catch (cause) {
    throw engineNotRun(cause);
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

/** @throws NOT_FOUND */
function findEngine(repository: FleetRepository, reference: string): EngineSummary {
  const found = /^[0-9a-f]{8,64}$/.test(reference)
    ? repository
        .engines()
        .filter(({ engine, engineId }) => engine.startsWith(reference) || engineId.startsWith(reference))
    : [];
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  throw notOneEngine(reference, found.length);
}
