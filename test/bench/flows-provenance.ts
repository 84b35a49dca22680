/**
 * The standard flow by provenance: a device fine-tunes MobileNetV2 and reports how it made each model, and the server
 * makes it again bit for bit. Trainings are real and short, as MMlib shortens them (§4.4, MM3).
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startAgent } from "../../agent/main.js";
import { openFleets } from "../../server/services/context/open-fleets.js";
import { localOperations } from "../../server/operations/local-operations.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { canonicalSamples } from "../../shared/train/datasets/canonical-samples.js";
import { loadDataset } from "../../shared/train/datasets/registry.js";
import { testProfile, WaitableLog } from "../helpers/agent-fixtures.js";
import { isOfVersion } from "../helpers/agent-test-environment.js";
import { startServerProcess, type ServerProcess } from "../../server/cli/simulation/server-process.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { followArrivals } from "./flows-arrivals.js";
import { flowSteps, type FlowStep } from "./flows-plan.js";

export interface ProvenanceRequest {
  /** Fine-tunes in each of the two phases. */
  readonly perPhase: number;
  /** Pictures of each data set. */
  readonly pictures: number;
  /** Width of the network; 1: MobileNetV2's own. */
  readonly alpha: number;
  /** A folder of the caller's. */
  readonly folder: string;
}

export interface ProvenanceUseCase {
  readonly useCase: string;
  readonly depth: number;
  /** What arrived at the server until it knew how the model was made; undefined for what it makes itself. */
  readonly wireBytes: number | undefined;
  /** Whether the data came along: the server did not have them. */
  readonly hasData: boolean;
  readonly trainMs: number;
  /** To make the model again from its base, which is there. */
  readonly replayMs: number;
  /** To make it again from U1, with all models between (MM2). */
  readonly recoverMs: number;
}

export interface ProvenanceFigures {
  readonly pictures: number;
  /** Of all tensors of the model. */
  readonly modelBytes: number;
  readonly useCases: readonly ProvenanceUseCase[];
}

const fleet = "flow";
const line = "model";
const device = "node";
const recipe = "image-mobilenet";
const oneEpoch = { epochs: 1, patience: 0 };

type Made = Omit<ProvenanceUseCase, "replayMs" | "recoverMs"> & {
  readonly step: FlowStep;
  readonly versionId: string;
};

/** @throws Error where a model is not proved */
export async function measureProvenanceFlow(request: ProvenanceRequest): Promise<ProvenanceFigures> {
  const folder = join(request.folder, "provenance");
  await mkdir(folder, { recursive: true });
  const server = await startServerProcess(join(folder, "server"), fleet);
  try {
    const made = await makeModels(server, request, folder);
    await server.kill("SIGTERM");
    return await replayModels(join(folder, "server"), made, request.pictures);
  } finally {
    await server.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  }
}

async function makeModels(
  server: ServerProcess,
  { perPhase, pictures, alpha }: ProvenanceRequest,
  folder: string,
): Promise<readonly Made[]> {
  const { operations } = server;
  const arrivals = followArrivals(server);
  const log = new WaitableLog();
  const addData = async (name: string, vehicle: number): Promise<void> => {
    const parameters = { vehicle, count: pictures };
    await operations.addDataset({ fleet, name, kind: "images-generated", location: "", parameters });
  };
  await addData("U1", 1);
  await addData("U2", 2);
  const made: Made[] = [];
  const onServer = async (step: FlowStep): Promise<void> => {
    const started = performance.now();
    const base = step.from === undefined ? {} : { base: made[step.from]?.versionId };
    const { summary } = await operations.train({
      ...{ fleet, recipe, name: "model", seed: "1", data: step.useCase, ...base },
      parameters: step.from === undefined ? { ...oneEpoch, alpha } : oneEpoch,
    });
    const trainMs = performance.now() - started;
    const { useCase, depth } = step;
    const figures = { useCase, depth, trainMs, wireBytes: undefined, hasData: false };
    made.push({ ...figures, step, versionId: summary.versionId });
  };
  const [initial, ...steps] = flowSteps({ nodes: 1, perPhase }) as [FlowStep, ...FlowStep[]];
  await onServer(initial);
  const home = join(folder, device);
  await mkdir(home, { recursive: true });
  const enrolment = await operations.enroll({
    ...{ fleet, device, lines: [line], profile: "generic" },
    initial: { [line]: made[0]?.versionId as string },
  });
  await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
  const settings = {
    recipe,
    parameters: oneEpoch,
    dataset: { reader: "canonical", location: await writePictures(join(home, "pictures"), pictures) },
    approach: "provenance",
    sendSamples: true,
    schedule: { everySeconds: null, afterSamples: null },
  };
  const agent = await startAgent({
    home,
    config: { format: 1, lines: { [line]: settings } },
    profile: { ...testProfile({ "training.memoryLimitMb": 1024, activation: "after-outbox" }) },
    log,
  });
  try {
    await log.until("activated", 1, isOfVersion(made[0]?.versionId as Hash));
    for (const step of steps) {
      if (step.useCase === "U2") {
        await onServer(step);
        const versionId = made.at(-1)?.versionId as Hash;
        await operations.assign({ fleet, device, line, model: versionId });
        await log.until("activated", 1, isOfVersion(versionId));
        continue;
      }
      const { versionId: id } = await agent.train(line);
      const { fields } = await log.until("trained", 1, isOfVersion(id));
      await log.until("activated", 1, isOfVersion(id));
      await arrivals.until([id]);
      const claim = arrivals.claimed.get(id);
      if (claim === undefined) throw new Error(`${step.useCase} was not reported by its making.`);
      made.push({
        ...{ useCase: step.useCase, depth: step.depth, step, versionId: id },
        wireBytes: claim.wireBytes,
        hasData: made.every(({ hasData }) => !hasData),
        trainMs: Number(fields["ms"]),
      });
    }
  } finally {
    await agent.close();
    arrivals.stop();
  }
  return made;
}

/** Pictures that are in a file, as a camera's are, and not made again from a seed. Returns the file. */
async function writePictures(file: string, count: number): Promise<string> {
  const parameters = { vehicle: 3, count };
  const { set } = await loadDataset({ reader: "images-generated", parameters }, nodeFiles());
  await writeFile(file, Buffer.concat([...canonicalSamples(set)]));
  return file;
}

/** Makes every model again, each from its base. */
async function replayModels(
  path: string,
  made: readonly Made[],
  pictures: number,
): Promise<ProvenanceFigures> {
  const home = await openNodeHome(path);
  const fleets = openFleets(home);
  try {
    const operations = localOperations({ home, fleets, version: "bench" });
    const useCases: ProvenanceUseCase[] = [];
    let modelBytes = 0;
    for (const { step, versionId, ...figures } of made) {
      const startedMs = performance.now();
      const { verdict } = await operations.replay({ fleet, model: versionId });
      const replayMs = performance.now() - startedMs;
      if (verdict !== "proved") throw new Error(`The replay of ${step.useCase} ended with ${verdict}.`);
      const before = step.from === undefined ? undefined : useCases[step.from];
      // U1 is kept as a snapshot, so making it again is not part of any other's recovery.
      const earlierMs = before === undefined || before.depth === 0 ? 0 : before.recoverMs;
      useCases.push({ ...figures, replayMs, recoverMs: earlierMs + replayMs });
      ({ tensorBytes: modelBytes } = await operations.model({ fleet, model: versionId }));
    }
    return { pictures, modelBytes, useCases };
  } finally {
    await fleets.close();
    await home.close();
  }
}
