/**
 * Provenance with data of MMlib's sizes (MM3, figure 9): a device fine-tunes MobileNetV2 on a set of pictures for two
 * epochs of two batches, as MMlib shortens trainings (§4.4), and the server makes it again from data that it has.
 */
import { mkdir, open, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startAgent } from "../../agent/main.js";
import type { ServerOperations } from "../../server/interface/api/server-operations.js";
import { startServerProcess, type ServerProcess } from "../../server/cli/simulation/server-process.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { objectsOf } from "../../shared/model/record-objects.js";
import { Streams } from "../../shared/random/streams.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { canonicalSamples } from "../../shared/train/datasets/canonical-samples.js";
import type { SamplePart } from "../../shared/train/datasets/dataset.js";
import { testProfile, WaitableLog } from "../helpers/agent-fixtures.js";
import { isOfVersion } from "../helpers/agent-test-environment.js";
import { followArrivals } from "./flows-arrivals.js";

export interface PictureSet {
  /** As the paper names it. */
  readonly name: string;
  readonly useCase: string;
  readonly pictures: number;
  /** Pixels of a side, of three colours. */
  readonly side: number;
}

/** As many pictures as MMlib's sets have, of such a size that their pixels, a byte each, take as many bytes. */
export const pictureSets: readonly PictureSet[] = [
  { name: "CO-512", useCase: "U3", pictures: 512, side: 216 },
  { name: "CF-512", useCase: "U3", pictures: 512, side: 248 },
  { name: "mINet-val", useCase: "U2", pictures: 1400, side: 218 },
];

export interface PictureFigures extends PictureSet {
  readonly pixelBytes: number;
  /** The samples as `data push` stores them, and as a device codes them. */
  readonly codedBytes: number;
  /** The record, the tree and all that says how the model was made, without data and engine. */
  readonly storyBytes: number;
  /** What arrived of the model at the server, which had no data. */
  readonly sentBytes: number;
  /** All tensors of the model. */
  readonly modelBytes: number;
  readonly trainMs: number;
  readonly replayMs: number;
}

const fleet = "flow";
const line = "model";
const device = "node";
const recipe = "image-mobilenet";
const batchSize = 16;
/** Two batches; the others are for validation and held out: a step holds far fewer pictures than a set has. */
const trained = 2 * batchSize;
const training = { epochs: 2, patience: 0, batchSize };

export interface PicturesRequest {
  readonly set: PictureSet;
  /** Width of the network; 1: MobileNetV2's own. */
  readonly alpha: number;
  /** A folder of the caller's. */
  readonly folder: string;
}

/** @throws Error where the server could replay the model without the data, or does not prove it with them */
export async function measurePictures(request: PicturesRequest): Promise<PictureFigures> {
  const { set } = request;
  const folder = join(request.folder, `pictures-${set.name}`);
  const file = join(folder, "pictures");
  await mkdir(folder, { recursive: true });
  await writePictures(file, set, "pictures");
  const server = await startServerProcess(join(folder, "server"), fleet);
  try {
    const made = await fineTune(server, request, { folder, file });
    const proved = await replayWithData(server.operations, made.versionId, file);
    await server.kill("SIGTERM");
    const storyBytes = await storyBytesOf(join(folder, "server"), made.versionId);
    const { versionId: _, ...figures } = made;
    return { ...set, pixelBytes: pixelsOf(set), storyBytes, ...figures, ...proved };
  } finally {
    await server.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  }
}

const pixelsOf = ({ pictures, side }: Pick<PictureSet, "pictures" | "side">): number =>
  pictures * side * side * 3;

type FineTuned = Pick<PictureFigures, "sentBytes" | "modelBytes" | "trainMs"> & { readonly versionId: Hash };

/** The device sends the parameters: samples of more than 8 MiB stay where they are. */
async function fineTune(
  server: ServerProcess,
  { set, alpha }: PicturesRequest,
  { folder, file }: { readonly folder: string; readonly file: string },
): Promise<FineTuned> {
  const { operations } = server;
  const arrivals = followArrivals(server);
  const log = new WaitableLog();
  // U1 is trained on other pictures of the same size, few of them.
  const initial = join(folder, "initial");
  await writePictures(initial, { ...set, pictures: trained + 2 }, "initial pictures");
  await operations.addDataset({ fleet, name: "U1", kind: "canonical", location: initial });
  const { summary } = await operations.train({
    ...{ fleet, recipe, name: "model", seed: "1", data: "U1" },
    parameters: { ...training, epochs: 1, alpha },
  });
  const home = join(folder, device);
  await mkdir(home, { recursive: true });
  const enrolment = await operations.enroll({
    ...{ fleet, device, lines: [line], profile: "generic" },
    initial: { [line]: summary.versionId },
  });
  await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
  const settings = {
    recipe,
    parameters: training,
    dataset: { reader: "canonical", location: file },
    approach: "provenance",
    sendSamples: true,
    schedule: { everySeconds: null, afterSamples: null },
  };
  const agent = await startAgent({
    home,
    config: { format: 1, lines: { [line]: settings } },
    profile: { ...testProfile({ "training.memoryLimitMb": 4000, activation: "after-outbox" }) },
    log,
  });
  try {
    await log.until("activated", 1, isOfVersion(summary.versionId));
    const { versionId } = await agent.train(line);
    const { fields } = await log.until("trained", 1, isOfVersion(versionId));
    await arrivals.until([versionId]);
    const sentBytes = arrivals.recorded.get(versionId)?.wireBytes;
    if (sentBytes === undefined) throw new Error(`${set.name}: the parameters did not arrive.`);
    const { tensorBytes: modelBytes } = await operations.model({ fleet, model: versionId });
    return { versionId, sentBytes, modelBytes, trainMs: Number(fields["ms"]) };
  } finally {
    await agent.close();
    arrivals.stop();
  }
}

/** Requires that the server cannot replay the model without the data, and proves it bit for bit with stored ones. */
async function replayWithData(
  operations: ServerOperations,
  model: Hash,
  location: string,
): Promise<Pick<PictureFigures, "codedBytes" | "replayMs">> {
  const without = await operations.replay({ fleet, model });
  if (without.verdict !== "unreplayable")
    throw new Error(`A replay without the data ended with ${without.verdict}.`);
  await operations.addDataset({ fleet, name: "pictures", kind: "canonical", location });
  const { newBytes: codedBytes } = await operations.pushDataset({ fleet, name: "pictures" });
  const startedMs = performance.now();
  const { verdict, grade } = await operations.replay({ fleet, model });
  const replayMs = performance.now() - startedMs;
  if (verdict !== "proved" || grade !== "bit-exact")
    throw new Error(`The replay ended with ${verdict}, ${grade}.`);
  return { codedBytes, replayMs };
}

async function storyBytesOf(path: string, versionId: Hash): Promise<number> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, fleet);
  try {
    const { record } = repository.resolve(versionId);
    const ids = [
      versionId,
      ...objectsOf(record)
        .filter(({ kind }) => kind !== "engine")
        .map(({ id }) => id),
    ];
    return ids.reduce((sum, id) => sum + (repository.objects.stat(id)?.byteLength ?? 0), 0);
  } finally {
    await repository.close();
    await home.close();
  }
}

/** Writes pictures of random pixels, from a seed: whole numbers from 0 to 255, divided by 255 as readers do. */
async function writePictures(
  path: string,
  { pictures, side }: Pick<PictureSet, "pictures" | "side">,
  seed: string,
): Promise<void> {
  const stream = new Streams("36", 0).stream(seed);
  const part = (count: number): SamplePart => ({
    count,
    inputs: Float32Array.from({ length: count * side * side * 3 }, () => stream.integer(256) / 255),
    targets: Float32Array.from({ length: count }, () => stream.integer(10)),
  });
  const others = pictures - trained;
  const set = {
    ...({ task: "classification", inputShape: [side, side, 3], targetSize: 1, classes: 10 } as const),
    train: part(trained),
    validation: part(Math.floor(others / 2)),
    heldOut: part(Math.ceil(others / 2)),
    description: {},
  };
  const file = await open(path, "w");
  try {
    for (const piece of canonicalSamples(set)) await file.write(piece);
  } finally {
    await file.close();
  }
}
