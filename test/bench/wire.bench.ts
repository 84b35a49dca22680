/**
 * Fine-tunes over a slow link, raw and encoded: `stemma bench wire [--quick] [-o json]`. A real server, the
 * agent's own uploads and decisions, and MQTT through a TCP proxy limited to 1 or 10 Mbit/s. The chains are an
 * LSTM's three checkpoints after their base and a MobileNetV2's fine-tunes of one base, from STEMMA_DATA, or
 * generated models when they are not there. Bytes are all bytes that passed the proxy; times run from the
 * announcement to the signed receipt after fsync. Asserts nothing about them.
 */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { UploadCoding } from "../../agent/outbox/upload-coding.js";
import { Uploads } from "../../agent/outbox/uploads.js";
import { nodeClock, nodeRandom, silentLog } from "../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { memoryStore } from "../../shared/objects/memory-store.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import { fineTuned, continueTuning, weights } from "../helpers/related-tensors.js";
import { ScriptedDevice } from "../helpers/scripted-device.js";
import { startTestServer, testFleet } from "../helpers/test-server.js";
import { startThrottledLink, type ThrottledLink } from "../helpers/throttled-link.js";

type Model = Readonly<Record<string, Tensor>>;
interface Step {
  readonly name: string;
  readonly base: string;
  readonly model: Model;
}
interface Chain {
  readonly name: string;
  readonly base: { readonly name: string; readonly model: Model };
  readonly steps: readonly Step[];
}
interface Transferred {
  readonly name: string;
  readonly rawBytes: number;
  readonly wireBytes: number;
  readonly ms: number;
}
interface Result {
  readonly chain: string;
  readonly megabitsPerSecond: number;
  readonly steps: readonly {
    readonly name: string;
    readonly modelBytes: number;
    readonly rawBytes: number;
    readonly codedBytes: number;
    readonly rawMs: number;
    readonly codedMs: number;
  }[];
  readonly rawBytes: number;
  readonly codedBytes: number;
  readonly bytesRatio: number;
  readonly rawMs: number;
  readonly codedMs: number;
  readonly timeRatio: number;
}

const args = process.argv.slice(2);
const asJson = args.includes("json");
const quick = args.includes("--quick");
const blockBytes = 64 * 1024;
const window = 8;

// The models that are transferred.

const folder = join(resolve(process.env["STEMMA_DATA"] ?? "../shared/data"), "fine-tunes");
async function readModel(name: string): Promise<Model> {
  const read = await readSafetensors(
    fileOfBytes(new Uint8Array(await readFile(join(folder, `${name}.safetensors`)))),
    name,
  );
  return Object.fromEntries(
    await Promise.all(
      read.tensors.map(async (entry) => [entry.name, await tensorOfSource(read.source(entry))] as const),
    ),
  );
}
async function stepOf(name: string, base: string): Promise<Step> {
  return { name, base, model: await readModel(name) };
}

/** A base, one training step, and two more in the same direction. */
function generatedChain(): Chain {
  const shapes = [
    [64, 3, 3, 3],
    [128, 64, 3, 3],
    [256, 128, 1, 1],
    [512, 128],
    [10, 512],
  ];
  const model = (makeTensor: (shape: readonly number[], index: number) => Tensor): Model =>
    Object.fromEntries(shapes.map((shape, index) => [`layer${index}`, makeTensor(shape, index)]));
  const layer = (from: Model, at: number): Tensor => from[`layer${at}`] as Tensor;
  const base = model((shape, at) => weights(shape, 1 + at));
  const first = model((_, at) => fineTuned(layer(base, at), 1e-4, 20 + at));
  const second = model((_, at) =>
    continueTuning(layer(first, at), layer(base, at), { share: 0.8, stepSize: 1e-5, seed: 40 + at }),
  );
  const third = model((_, at) =>
    continueTuning(layer(second, at), layer(first, at), { share: 0.8, stepSize: 1e-5, seed: 60 + at }),
  );
  return {
    name: "generated",
    base: { name: "base", model: base },
    steps: [
      { name: "step-1", base: "base", model: first },
      { name: "step-2", base: "step-1", model: second },
      { name: "step-3", base: "step-2", model: third },
    ],
  };
}

async function chains(): Promise<readonly { readonly chain: Chain; readonly megabits: readonly number[] }[]> {
  if (!existsSync(join(folder, "lstm-base.safetensors"))) {
    console.error(`wire: no fine-tunes below ${folder}, so models are generated; set STEMMA_DATA`);
    const chain = generatedChain();
    return quick
      ? [
          { chain, megabits: [10] },
          { chain: { ...chain, steps: chain.steps.slice(0, 1) }, megabits: [1] },
        ]
      : [{ chain, megabits: [1, 10] }];
  }
  const lstm: Chain = {
    name: "LSTM, one training's checkpoints",
    base: { name: "lstm-base", model: await readModel("lstm-base") },
    steps: [
      await stepOf("lstm-sgd1e-3-10", "lstm-base"),
      await stepOf("lstm-sgd1e-3-100", "lstm-sgd1e-3-10"),
      await stepOf("lstm-sgd1e-3-200", "lstm-sgd1e-3-100"),
    ],
  };
  if (quick)
    return [
      { chain: lstm, megabits: [10] },
      { chain: { ...lstm, steps: lstm.steps.slice(0, 1) }, megabits: [1] },
    ];
  const mobileNet: Chain = {
    name: "MobileNetV2, two fine-tunes of one base",
    base: { name: "mnv2-base", model: await readModel("mnv2-base") },
    steps: [await stepOf("mnv2-sgd1e-3-100", "mnv2-base"), await stepOf("mnv2-adam1e-4-100", "mnv2-base")],
  };
  return [
    { chain: lstm, megabits: [1, 10] },
    { chain: mobileNet, megabits: [10] },
  ];
}

// The transfers.

interface UploadSetting {
  readonly store: ReturnType<typeof memoryStore>;
  /** Folder for encoded tensors. */
  readonly work: string;
  readonly megabits: number;
  readonly coding: "auto" | "never";
}

/** What makes the uploads of a device. */
function uploadsOf({ store, work, megabits, coding }: UploadSetting): (device: ScriptedDevice) => Uploads {
  return (device) =>
    new Uploads({
      objects: store,
      clock: nodeClock(),
      log: silentLog(),
      blockBytes,
      coding: new UploadCoding({
        objects: store,
        files: nodeFiles(),
        folder: work,
        clock: nodeClock(),
        log: silentLog(),
        memoryLimitMb: 1024,
        mayTake: () => Promise.resolve(true),
        link: {
          blockBytes,
          window,
          bytesPerSecond: (megabits * 1e6) / 8,
          keepaliveSeconds: 60,
          coding,
          metered: false,
        },
      }),
      send: async (transfer, message) => {
        if (message.type === "block") await device.sendBlock(transfer, message);
        else await device.send(message);
        return true;
      },
    });
}

/**
 * Transfers the chain's steps over one link, from a device that encodes when it pays (`auto`) or never. The
 * server has the base before.
 */
async function transferChain(
  chain: Chain,
  megabits: number,
  coding: "auto" | "never",
): Promise<readonly Transferred[]> {
  const server = await startTestServer({ limits: { blockBytes, window } });
  const work = await mkdtemp(join(tmpdir(), "stemma-wire-"));
  let link: ThrottledLink | undefined;
  try {
    const enrolment = await server.enroll("v1", ["line"]);
    const store = memoryStore({ clock: nodeClock(), random: nodeRandom() });
    const uploads = uploadsOf({ store, work, megabits, coding });
    const unlimited = await ScriptedDevice.connect(enrolment, { session: 1, store, uploads });
    await unlimited.birth();
    const versions = new Map<string, Hash>();
    const saves = [await unlimited.save(chain.base.model, { sequence: 1 })];
    versions.set(chain.base.name, saves[0]!.versionId);
    await unlimited.announce(saves[0]!);
    await unlimited.receipt("released", saves[0]!.versionId);
    await unlimited.close();

    link = await startThrottledLink(Number(new URL(enrolment.mqtt[0] as string).port), megabits * 1e6);
    const device = await ScriptedDevice.connect(
      { ...enrolment, mqtt: [`mqtt://127.0.0.1:${link.port}`] },
      { session: 2, previousSession: 1, store, uploads },
    );
    await device.birth();
    const transferred: Transferred[] = [];
    for (const [at, { name, base, model }] of chain.steps.entries()) {
      const saved = await device.save(model, { sequence: 2 + at, base: versions.get(base)! });
      versions.set(name, saved.versionId);
      const bytesBefore = link.bytesUp;
      const began = performance.now();
      await device.announce(saved);
      await device.receipt("recorded", saved.versionId);
      transferred.push({
        name,
        rawBytes: saved.tensorBytes,
        wireBytes: link.bytesUp - bytesBefore,
        ms: performance.now() - began,
      });
      // Verified by the server before the next step starts, so that they do not share the processor.
      await device.receipt("released", saved.versionId);
      await server.handle.operations.verify({ fleet: testFleet, model: saved.versionId });
    }
    await device.close();
    return transferred;
  } finally {
    await link?.close();
    await server.remove();
    await rm(work, { recursive: true, force: true });
  }
}

async function compare(chain: Chain, megabits: number): Promise<Result> {
  // Both wait for their own link most of the time, so a quick run starts them concurrently.
  const first = transferChain(chain, megabits, "never");
  if (!quick) await first;
  const [raw, coded] = await Promise.all([first, transferChain(chain, megabits, "auto")]);
  const sum = (list: readonly Transferred[], valueOf: (step: Transferred) => number): number =>
    list.reduce((total, step) => total + valueOf(step), 0);
  const rawBytes = sum(raw, ({ wireBytes }) => wireBytes);
  const codedBytes = sum(coded, ({ wireBytes }) => wireBytes);
  const rawMs = sum(raw, ({ ms }) => ms);
  const codedMs = sum(coded, ({ ms }) => ms);
  return {
    chain: chain.name,
    megabitsPerSecond: megabits,
    rawBytes,
    codedBytes,
    bytesRatio: codedBytes / rawBytes,
    rawMs,
    codedMs,
    timeRatio: codedMs / rawMs,
    steps: raw.map((step, index) => ({
      name: step.name,
      modelBytes: step.rawBytes,
      rawBytes: step.wireBytes,
      codedBytes: coded[index]!.wireBytes,
      rawMs: step.ms,
      codedMs: coded[index]!.ms,
    })),
  };
}

const results: Result[] = [];
for (const { chain, megabits } of await chains())
  for (const each of megabits) {
    const result = await compare(chain, each);
    results.push(result);
    if (asJson) continue;
    console.log(`== ${result.chain}, ${each} Mbit/s`);
    for (const step of result.steps)
      console.log(
        `${step.name.padEnd(20)} ${(step.rawBytes / 1e6).toFixed(3)} MB → ${(step.codedBytes / 1e6).toFixed(3)} MB (${(step.codedBytes / step.rawBytes).toFixed(3)}), ${(step.rawMs / 1000).toFixed(2)} s → ${(step.codedMs / 1000).toFixed(2)} s (${(step.codedMs / step.rawMs).toFixed(2)})`,
      );
    console.log(
      `${"all".padEnd(20)} ${(result.rawBytes / 1e6).toFixed(3)} MB → ${(result.codedBytes / 1e6).toFixed(3)} MB (${result.bytesRatio.toFixed(3)}), ${(result.rawMs / 1000).toFixed(2)} s → ${(result.codedMs / 1000).toFixed(2)} s (${result.timeRatio.toFixed(2)})`,
    );
  }
if (asJson) console.log(JSON.stringify({ bench: "wire", quick, blockBytes, window, results }, undefined, 2));
