/**
 * Many devices announce a small model at the same moment. Measures the time from the announcement to the
 * signed, fsynced `recorded` receipt, as a ratio to a floor of the same run: the same models saved by as many
 * concurrent calls into a repository of the same process, without a network. Asserts nothing.
 *
 *   node dist/test/bench/announce.bench.js [-o json] [--devices 200] [--rounds 5] [--bytes 4096] [--quick]
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startServer } from "../../server/main.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import type { SavedModel } from "../../shared/save/save-model.js";
import { parseEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { noiseBytes } from "../helpers/noise-bytes.js";
import { ScriptedDevice } from "../helpers/scripted-device.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    devices: { type: "string", default: "200" },
    rounds: { type: "string", default: "5" },
    bytes: { type: "string", default: "4096" },
    quick: { type: "boolean", default: false },
  },
});
const deviceCount = options.quick ? 50 : Number(options.devices);
const rounds = options.quick ? 2 : Number(options.rounds);
const modelBytes = Number(options.bytes);
const fleet = "bench";

type Order =
  | { readonly do: "connect"; readonly enrolments: readonly Enrolment[] }
  | { readonly do: "prepare"; readonly round: number }
  | { readonly do: "announce"; readonly round: number }
  | { readonly do: "settle" }
  | { readonly do: "end" };
interface Answer {
  readonly latenciesMs: readonly number[];
  readonly wallMs: number;
  /** Processor time of the devices' process. */
  readonly cpuMs: number;
}

/** Processor time of this process since `from`, all threads. */
function cpuMsSince(from: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1000;
}

const seedOf = (round: number, device: number): number => 1 + round * 100_003 + device;

// The devices, all in one child process.

function runDevices(): void {
  let connected: ScriptedDevice[] = [];
  let prepared: SavedModel[] = [];
  const perform = async (order: Order): Promise<Answer> => {
    const began = performance.now();
    const cpu = process.cpuUsage();
    if (order.do === "connect") {
      for (const enrolment of order.enrolments) {
        const device = await ScriptedDevice.connect(enrolment, { session: 1 });
        await device.birth();
        connected.push(device);
      }
    } else if (order.do === "prepare") {
      prepared = await Promise.all(
        connected.map((device, index) =>
          device.save(
            { w: noiseBytes(modelBytes, seedOf(order.round, index)) },
            { sequence: order.round + 1 },
          ),
        ),
      );
    } else if (order.do === "announce") {
      const latenciesMs = await Promise.all(
        connected.map(async (device, index) => {
          const saved = prepared[index]!;
          const from = performance.now();
          await device.announce(saved);
          await device.receipt("recorded", saved.versionId);
          return performance.now() - from;
        }),
      );
      return { latenciesMs, wallMs: performance.now() - began, cpuMs: cpuMsSince(cpu) };
    } else if (order.do === "settle") {
      await Promise.all(
        connected.map((device, index) => device.receipt("released", prepared[index]!.versionId)),
      );
    } else {
      await Promise.all(connected.map((device) => device.close()));
      connected = [];
    }
    return { latenciesMs: [], wallMs: performance.now() - began, cpuMs: cpuMsSince(cpu) };
  };
  process.on("message", (order: Order) => {
    perform(order).then(
      (answer) => {
        process.send?.(answer);
        if (order.do === "end") process.disconnect();
      },
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
}

// The server, and the floor.

async function main(): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), "stemma-announce-"));
  const server = await startServer(
    { home: join(home, "server"), fleets: [fleet], mqttPort: 0, httpPort: 0, tls: "none" },
    silentLog(),
  );
  const floorHome = await openNodeHome(join(home, "floor"));
  const floor = await openRepository(floorHome, fleet);
  const child = fork(fileURLToPath(import.meta.url), process.argv.slice(2), {
    env: { ...process.env, STEMMA_BENCH_DEVICES: "1" },
  });
  const perform = async (order: Order): Promise<Answer> => {
    child.send(order);
    return (await once(child, "message"))[0] as Answer;
  };
  try {
    const enrolments: Enrolment[] = [];
    for (let index = 0; index < deviceCount; index++)
      enrolments.push(
        parseEnrolment(
          await server.operations.enroll({ fleet, device: `v${index}`, lines: ["line"], profile: "generic" }),
        ),
      );
    const { wallMs: connectMs } = await perform({ do: "connect", enrolments });
    const wall: number[] = [];
    const floorWall: number[] = [];
    const latencies: number[] = [];
    const floorLatencies: number[] = [];
    const cpu = { recorded: 0, confirmed: 0, floor: 0, devices: 0 };
    for (let round = 0; round < rounds; round++) {
      await perform({ do: "prepare", round });
      const serverCpu = process.cpuUsage();
      const answer = await perform({ do: "announce", round });
      cpu.recorded += cpuMsSince(serverCpu);
      cpu.devices += answer.cpuMs;
      wall.push(answer.wallMs);
      latencies.push(...answer.latenciesMs);
      // The server reads back what it recorded: not beside the floor.
      await perform({ do: "settle" });
      cpu.confirmed += cpuMsSince(serverCpu);
      const floorCpu = process.cpuUsage();
      const began = performance.now();
      floorLatencies.push(
        ...(await Promise.all(
          Array.from({ length: deviceCount }, async (_, index) => {
            const from = performance.now();
            await floor.save(
              opaqueModelSource([
                {
                  name: "w",
                  dtype: "F32",
                  shape: [modelBytes / 4],
                  bytes: noiseBytes(modelBytes, seedOf(round, index)),
                },
              ]),
              { name: `m${index}`, device: `v${index}`, line: "line", environment: { backend: "none" } },
            );
            return performance.now() - from;
          }),
        )),
      );
      floorWall.push(performance.now() - began);
      cpu.floor += cpuMsSince(floorCpu);
    }
    await perform({ do: "end" });
    report({ connectMs, wall, floorWall, latencies, floorLatencies, cpu });
  } finally {
    if (child.exitCode === null) child.kill();
    await floor.close();
    await floorHome.close();
    await server.close();
    await rm(home, { recursive: true, force: true });
  }
}

interface Figures {
  readonly connectMs: number;
  readonly wall: readonly number[];
  readonly floorWall: readonly number[];
  readonly latencies: readonly number[];
  readonly floorLatencies: readonly number[];
  /**
   * Milliseconds of processor time of all rounds: of the server until all are recorded, and until all are read
   * back and released; of the floor's saves; of the devices until all are recorded.
   */
  readonly cpu: Readonly<Record<"recorded" | "confirmed" | "floor" | "devices", number>>;
}
function report({ connectMs, wall, floorWall, latencies, floorLatencies, cpu }: Figures): void {
  const percentile = (values: readonly number[], share: number): number =>
    [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN;
  const rate = (walls: readonly number[]): number =>
    Math.round(deviceCount / (percentile(walls, 0.5) / 1000));
  const round = (value: number): number => Number(value.toFixed(2));
  const perModel = (ms: number): number => round(ms / rounds / deviceCount);
  const result = {
    devices: deviceCount,
    rounds,
    modelBytes,
    connectsPerSecond: Math.round(deviceCount / (connectMs / 1000)),
    recordedPerSecond: rate(wall),
    floorPerSecond: rate(floorWall),
    ratio: round(percentile(wall, 0.5) / percentile(floorWall, 0.5)),
    p50Ratio: round(percentile(latencies, 0.5) / percentile(floorLatencies, 0.5)),
    p99Ratio: round(percentile(latencies, 0.99) / percentile(floorLatencies, 0.99)),
    cpuMsPerModel: {
      recorded: perModel(cpu.recorded),
      confirmed: perModel(cpu.confirmed),
      floor: perModel(cpu.floor),
      devices: perModel(cpu.devices),
    },
    cpuRatio: round(cpu.recorded / cpu.floor),
    p50Ms: Math.round(percentile(latencies, 0.5)),
    p99Ms: Math.round(percentile(latencies, 0.99)),
  };
  if (options.output === "json") {
    console.log(JSON.stringify(result));
    return;
  }
  console.log(
    `${deviceCount} devices announce ${modelBytes} bytes each at the same moment, ${rounds} rounds; floor: as many concurrent saves without a network`,
  );
  console.log(
    `  recorded ${result.recordedPerSecond}/s, floor ${result.floorPerSecond}/s, ratio ${result.ratio}; connects ${result.connectsPerSecond}/s`,
  );
  const { cpuMsPerModel } = result;
  console.log(
    `  processor time per model: server ${cpuMsPerModel.recorded} ms until recorded (${cpuMsPerModel.confirmed} ms until released), floor ${cpuMsPerModel.floor} ms (ratio ${result.cpuRatio}), devices ${cpuMsPerModel.devices} ms`,
  );
  console.log(
    `  latency p50 ${result.p50Ms} ms (${result.p50Ratio} of the floor's), p99 ${result.p99Ms} ms (${result.p99Ratio})`,
  );
}

if (process.env["STEMMA_BENCH_DEVICES"] === undefined) await main();
else runDevices();
