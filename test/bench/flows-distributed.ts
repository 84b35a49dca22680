/**
 * MMlib's distributed flow (§4.6, DIST-5 to DIST-20): a server and many nodes, each a process with a store of its own.
 * Every node fine-tunes what the server gave it and reports each model over MQTT, all nodes at once. At the end every
 * model is recovered from the server's store, and compared with what its node saved.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { memoryOfServices } from "../../server/cli/simulation/memory-of-services.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";
import { safetensorsChunks } from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Hash } from "../../shared/tensor/tensor.js";
import { parseEnrolment } from "../../shared/trust/enrolment.js";
import { collectBytes } from "../helpers/agent-fixtures.js";
import { startServerProcess, type ServerProcess } from "../../server/cli/simulation/server-process.js";
import { bytesBelow } from "./bytes-below.js";
import { followArrivals, type Arrivals } from "./flows-arrivals.js";
import { contentOf, flowLine, startNode, type FlowNode, type NodeSave } from "./flows-node.js";
import { flowModels, type Approach } from "./flows-standard.js";
import type { BenchModel } from "./model-shapes.js";
import { median, recoverFloor, saveFloor, timed, type Named } from "./save-floors.js";

export interface DistributedRequest {
  readonly model: BenchModel;
  readonly approach: Approach;
  readonly nodes: number;
  /** Fine-tunes of each node in each of the two phases; 10 in the paper. */
  readonly perPhase: number;
  /** A folder of the caller's. */
  readonly folder: string;
}

export interface DistributedUseCase {
  readonly useCase: string;
  /** Milliseconds, medians over the nodes. */
  readonly saveMs: number;
  readonly saveFloorMs: number;
  /** From the announcement to the moment when the server has the version. */
  readonly reportMs: number;
  /** What arrived at the server of a model. */
  readonly wireBytes: number;
  readonly recoverMs: number;
  readonly recoverFloorMs: number;
}

export interface DistributedFigures {
  readonly nodes: number;
  readonly perPhase: number;
  readonly approach: Approach;
  /** U1, U2 and all fine-tunes. */
  readonly models: number;
  readonly modelBytes: number;
  /** Models that a node saved, and that the server does not give back as they were. */
  readonly lost: number;
  /** Bytes that the fine-tunes of a phase added to the server's disk, per model. */
  readonly storedBytes: number;
  /** Most memory that the server's process held; undefined where the system does not tell. */
  readonly serverBytes: number | undefined;
  /** Of both phases, from the first save until the server has all models. */
  readonly wallMs: number;
  /** Of each fine-tune by its place in the flow; U1 and U2, which the server makes, apart. */
  readonly fineTunes: readonly DistributedUseCase[];
  readonly onServer: readonly DistributedUseCase[];
}

const fleet = "flow";

/** What is known of a model before it is recovered. */
interface Made {
  readonly useCase: string;
  readonly versionId: Hash;
  readonly content: string;
  readonly saveMs: number;
  readonly saveFloorMs: number;
}

/** One run. @throws Error where a node trained from another model than the flow says */
export async function measureDistributedFlow(request: DistributedRequest): Promise<DistributedFigures> {
  const { model, approach, nodes: nodeCount, perPhase } = request;
  const folder = join(request.folder, `dist-${nodeCount}-${approach}`);
  await mkdir(folder, { recursive: true });
  const home = join(folder, "server");
  const initial = flowModels(model, "full", [
    { useCase: "U1", depth: 0 },
    { useCase: "U2", from: 0, depth: 1 },
  ]);
  const [u1, u2] = initial.map(({ tensors }) => tensors) as [readonly Named[], readonly Named[]];
  const server = await startServerProcess(home, fleet, { environment: memoryOfServices });
  const nodes: FlowNode[] = [];
  const arrivals = followArrivals(server);
  try {
    const made: Made[] = [];
    const initialModel = await saveOnServer(server, { useCase: "U1", tensors: u1, folder });
    made.push(initialModel);
    nodes.push(
      ...(await startNodes({ server, folder, nodeCount, approach, initial: initialModel.versionId })),
    );
    const phase = async (
      number: 1 | 2,
      from: Hash,
    ): Promise<{ readonly ms: number; readonly bytes: number }> => {
      const before = await bytesBelow(home);
      let saves: readonly Made[] = [];
      const ms = await timed(async () => {
        saves = await runPhase(nodes, { number, perPhase, from });
        await arrivals.until(saves.map(({ versionId }) => versionId));
      });
      made.push(...saves);
      return { ms, bytes: (await bytesBelow(home)) - before };
    };
    const first = await phase(1, initialModel.versionId);
    const updated = await saveOnServer(server, {
      useCase: "U2",
      tensors: u2,
      folder,
      ...(approach === "update" ? { base: initialModel.versionId } : {}),
    });
    made.push(updated);
    for (let index = 0; index < nodeCount; index++)
      await server.operations.assign({
        fleet,
        device: deviceName(index),
        line: flowLine,
        model: updated.versionId,
      });
    await Promise.all(nodes.map((node) => node.awaitVersion(updated.versionId)));
    const second = await phase(2, updated.versionId);
    const serverBytes = await peakMemory(server.pid);
    await Promise.all(nodes.map((node) => node.end()));
    arrivals.stop();
    await server.kill("SIGTERM");
    const { useCases, lost } = await recoverAll(home, made, { folder, tensors: u1, arrivals });
    return {
      nodes: nodeCount,
      perPhase,
      approach,
      models: made.length,
      modelBytes: u1.reduce((sum, { bytes }) => sum + bytes.length, 0),
      lost,
      storedBytes: (first.bytes + second.bytes) / (2 * perPhase * nodeCount),
      serverBytes,
      wallMs: first.ms + second.ms,
      fineTunes: useCases.filter(({ useCase }) => useCase.startsWith("U3")),
      onServer: useCases.filter(({ useCase }) => !useCase.startsWith("U3")),
    };
  } finally {
    arrivals.stop();
    for (const node of nodes) node.kill();
    await server.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  }
}

const deviceName = (index: number): string => `node-${index}`;

async function startNodes({
  server,
  folder,
  nodeCount,
  approach,
  initial,
}: {
  readonly server: ServerProcess;
  readonly folder: string;
  readonly nodeCount: number;
  readonly approach: Approach;
  readonly initial: Hash;
}): Promise<readonly FlowNode[]> {
  const nodes = await Promise.all(
    Array.from({ length: nodeCount }, async (_, index) => {
      const device = deviceName(index);
      const enrolment = parseEnrolment(
        await server.operations.enroll({
          fleet,
          device,
          lines: [flowLine],
          profile: "generic",
          initial: { [flowLine]: initial },
        }),
      );
      return await startNode({ home: join(folder, device), enrolment, approach });
    }),
  );
  await Promise.all(nodes.map((node) => node.awaitVersion(initial)));
  return nodes;
}

/** All nodes at once. */
async function runPhase(
  nodes: readonly FlowNode[],
  { number, perPhase, from }: { readonly number: 1 | 2; readonly perPhase: number; readonly from: Hash },
): Promise<readonly Made[]> {
  const saved = await Promise.all(
    nodes.map((node, index) => node.runPhase(perPhase, 10_000_000 * number + 100_000 * index)),
  );
  for (const saves of saved)
    for (const [i, { base }] of saves.entries()) {
      const expected = i === 0 ? from : saves[i - 1]?.versionId;
      if (base !== expected)
        throw new Error(`A node trained from ${String(base)}, where the flow says ${String(expected)}.`);
    }
  return saved.flatMap((saves) =>
    saves.map(({ versionId, content, saveMs, floorMs }: NodeSave, i) => ({
      useCase: `U3-${number}-${i + 1}`,
      versionId,
      content,
      saveMs,
      saveFloorMs: floorMs,
    })),
  );
}

/** What the server makes itself: with all the time that its command takes. */
async function saveOnServer(
  { operations }: ServerProcess,
  {
    useCase,
    tensors,
    folder,
    base,
  }: {
    readonly useCase: string;
    readonly tensors: readonly Named[];
    readonly folder: string;
    readonly base?: Hash;
  },
): Promise<Made> {
  const parts = tensors.map((tensor) => ({ name: tensor.name, source: sourceOfTensor(tensor) }));
  const bytes = await collectBytes(safetensorsChunks(parts));
  const saveFloorMs = await saveFloor(folder, tensors, tensors);
  let versionId: Hash | undefined;
  const saveMs = await timed(async () => {
    const { summary } = await operations.import(
      {
        byteLength: bytes.length,
        chunks: (async function* () {
          yield bytes;
        })(),
      },
      { fleet, name: "model", ...(base === undefined ? {} : { base }) },
    );
    versionId = summary?.versionId;
  });
  return { useCase, versionId: versionId as Hash, content: contentOf(tensors), saveMs, saveFloorMs };
}

/** Bytes; VmHWM of Linux. */
async function peakMemory(pid: number): Promise<number | undefined> {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(await readFile(file, "utf8"))?.[1];
  return kilobytes === undefined ? undefined : 1024 * Number(kilobytes);
}

/** Each model once, after one that is not measured; medians over the nodes. */
async function recoverAll(
  home: string,
  made: readonly Made[],
  {
    folder,
    tensors,
    arrivals,
  }: { readonly folder: string; readonly tensors: readonly Named[]; readonly arrivals: Arrivals },
): Promise<{ readonly useCases: readonly DistributedUseCase[]; readonly lost: number }> {
  const cached = join(folder, "cached");
  await writeFile(cached, Buffer.concat(tensors.map(({ bytes }) => bytes)));
  const opened = await openNodeHome(home);
  const repository = await openRepository(opened, fleet);
  const measured = new Map<string, DistributedUseCase[]>();
  let lost = 0;
  try {
    await repository.recover((made[0] as Made).versionId);
    await recoverFloor(cached);
    for (const { useCase, versionId, content, saveMs, saveFloorMs } of made) {
      if (repository.get(versionId) === undefined) {
        lost++;
        continue;
      }
      const recoverFloorMs = await recoverFloor(cached);
      const recovered = await repository.recover(versionId);
      if ((await contentOfRecovered(recovered)) !== content) lost++;
      const { loadMs, rebuildMs, checkEnvironmentMs, verifyMs } = recovered.steps;
      const arrival = arrivals.recorded.get(versionId);
      const all = measured.get(useCase) ?? [];
      measured.set(useCase, all);
      all.push({
        useCase,
        saveMs,
        saveFloorMs,
        reportMs: arrival?.tookMs ?? 0,
        wireBytes: arrival?.wireBytes ?? 0,
        recoverMs: loadMs + rebuildMs + checkEnvironmentMs + verifyMs,
        recoverFloorMs,
      });
    }
  } finally {
    await repository.close();
    await opened.close();
  }
  return { useCases: [...measured.values()].map(medianUseCase), lost };
}

async function contentOfRecovered({ leaves, sources }: RecoveredModel): Promise<string> {
  return contentOf(
    await Promise.all(
      leaves.map(async ({ path }, i) => ({
        name: path,
        ...(await tensorOfSource(sources[i] as (typeof sources)[number])),
      })),
    ),
  );
}

/** Of equal use cases. */
function medianUseCase(all: readonly DistributedUseCase[]): DistributedUseCase {
  const middle = (value: (one: DistributedUseCase) => number): number => median(all.map(value));
  return {
    useCase: (all[0] as DistributedUseCase).useCase,
    saveMs: middle(({ saveMs }) => saveMs),
    saveFloorMs: middle(({ saveFloorMs }) => saveFloorMs),
    reportMs: middle(({ reportMs }) => reportMs),
    wireBytes: middle(({ wireBytes }) => wireBytes),
    recoverMs: middle(({ recoverMs }) => recoverMs),
    recoverFloorMs: middle(({ recoverFloorMs }) => recoverFloorMs),
  };
}

/** The figures of several runs: medians over the runs; of loss and memory the worst. */
export function medianOfRuns(runs: readonly DistributedFigures[]): DistributedFigures {
  const first = runs[0] as DistributedFigures;
  const middle = (value: (run: DistributedFigures) => number): number => median(runs.map(value));
  const useCasesOf = (part: "fineTunes" | "onServer"): readonly DistributedUseCase[] =>
    first[part].map(({ useCase }) =>
      medianUseCase(runs.flatMap((run) => run[part].filter((one) => one.useCase === useCase))),
    );
  const peaks = runs.flatMap(({ serverBytes }) => serverBytes ?? []);
  return {
    ...first,
    lost: Math.max(...runs.map(({ lost }) => lost)),
    storedBytes: middle(({ storedBytes }) => storedBytes),
    serverBytes: peaks.length === 0 ? undefined : Math.max(...peaks),
    wallMs: middle(({ wallMs }) => wallMs),
    fineTunes: useCasesOf("fineTunes"),
    onServer: useCasesOf("onServer"),
  };
}
