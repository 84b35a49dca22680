/**
 * Times a bulk transfer from a device process through the embedded broker against a raw TCP copy between the
 * same two processes, alternately. Both read a cached file, hash every byte once on both sides, and write a
 * file: without fsync for the ratio, and with fsync for a second one. Asserts nothing.
 *
 *   node dist/test/bench/transfer.bench.js [-o json] [--mib 256] [--runs 7] [--block 262144] [--window 8]
 */
import { fork, type ChildProcess } from "node:child_process";
import { createHash, randomFillSync } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, open, rm, type FileHandle } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import mqtt, { type MqttClient } from "mqtt";
import { nodeClock, silentLog } from "../../shared/adapters/node-ports.js";
import { decodeEnvelope, encodeEnvelope } from "../../shared/wire/codec.js";
import { blockOverheadBytes, maxBlockBytes } from "../../shared/wire/limits.js";
import type { Body } from "../../shared/wire/messages.js";
import { buildTopic, clientIdOf, deviceSubscriptions } from "../../shared/wire/topics.js";
import {
  runReceiver,
  slowLinkBudget,
  type RunningReceiver,
} from "../../shared/wire/transfer/run-receiver.js";
import { runSender } from "../../shared/wire/transfer/run-sender.js";
import type { StreamObject } from "../../shared/wire/transfer/stream.js";
import { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import { startBroker } from "../../server/access/broker/start-broker.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    mib: { type: "string", default: "256" },
    runs: { type: "string", default: "7" },
    block: { type: "string", default: String(256 * 1024) },
    window: { type: "string", default: "8" },
    quick: { type: "boolean", default: false },
  },
});
const byteLength = (options.quick ? 32 : Number(options.mib)) * 2 ** 20;
const [runs, blockBytes, window] = [
  options.quick ? 2 : Number(options.runs),
  Number(options.block),
  Number(options.window),
];
const names = { root: "stemma", fleet: "bench", device: "v1" } as const;
const rawPieceBytes = 256 * 1024;

type Order =
  | { readonly do: "raw"; readonly port: number }
  | { readonly do: "connect"; readonly url: string }
  | { readonly do: "serve"; readonly transfer: string };

// The device's side, in a child process.

async function* piecesOf(file: string, pieceBytes: number): AsyncGenerator<Uint8Array> {
  const handle = await open(file, "r");
  try {
    for (let offset = 0; offset < byteLength;) {
      const piece = Buffer.allocUnsafe(Math.min(pieceBytes, byteLength - offset));
      const { bytesRead } = await handle.read(piece, 0, piece.length, offset);
      if (bytesRead === 0) return;
      offset += bytesRead;
      yield piece.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
async function sendRaw(file: string, port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  const hash = createHash("sha256");
  for await (const piece of piecesOf(file, rawPieceBytes)) {
    hash.update(piece);
    if (!socket.write(piece)) await once(socket, "drain");
  }
  socket.end(hash.digest());
  await once(socket, "close");
}
async function runDevice(file: string): Promise<void> {
  let client: MqttClient | undefined;
  const handle = await open(file, "r");
  const object: StreamObject = {
    byteLength,
    chunks: () => piecesOf(file, blockBytes),
    readAt: async (offset, target) => {
      await handle.read(target, 0, target.length, offset);
      return true;
    },
  };
  const send = (body: Body, transfer: string): Promise<void> =>
    new Promise((resolve) => {
      const topic = buildTopic(
        body.type === "block" ? { ...names, kind: "block-up", transfer } : { ...names, kind: "up" },
      );
      const bytes = encodeEnvelope({
        protocol: 1,
        session: 1,
        sequence: 1,
        correlation: "",
        expiresMs: 0,
        body,
      });
      client?.publish(
        topic,
        Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
        { qos: body.type === "block" ? 0 : 1 },
        () => {
          if (body.type === "block") resolve();
        },
      );
      if (body.type !== "block") resolve();
    });
  const perform = async (order: Order): Promise<void> => {
    if (order.do === "raw") {
      await sendRaw(file, order.port);
      return;
    }
    if (order.do === "connect") {
      client = mqtt.connect(order.url, {
        clientId: clientIdOf(names.fleet, names.device),
        protocolVersion: 4,
        reconnectPeriod: 0,
      });
      await once(client as unknown as import("node:events").EventEmitter, "connect");
      await client.subscribeAsync([...deviceSubscriptions(names.root, names.fleet, names.device)], {
        qos: 1,
      });
      return;
    }
    const sender = runSender({ transfer: order.transfer, blockBytes }, [object], {
      clock: nodeClock(),
      send: (message) => send(message, order.transfer),
      onFailed: (error) => {
        throw error;
      },
    });
    client?.removeAllListeners("message");
    client?.on("message", (_topic, payload) => {
      const { body } = decodeEnvelope(payload);
      if (body.type === "blockRequest") sender.onRequest(body);
      if (body.type === "transferDone") void sender.stop();
    });
  };
  process.on("message", (order: Order) => {
    void perform(order).then(() => {
      process.send?.("ready");
    });
  });
  process.on("disconnect", () => {
    client?.end(true);
    void handle.close();
  });
}

// The server's side.

async function receiveRaw(child: ChildProcess, target: FileHandle, fsync: boolean): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const began = performance.now();
  child.send({ do: "raw", port: typeof address === "object" ? (address?.port ?? 0) : 0 } satisfies Order);
  const [socket] = (await once(server, "connection")) as [Socket];
  const hash = createHash("sha256");
  let at = 0;
  let tail = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    const body = chunk.subarray(0, Math.max(0, Math.min(chunk.length, byteLength - at)));
    hash.update(body);
    if (body.length > 0) await target.write(body, 0, body.length, at);
    at += body.length;
    if (body.length < chunk.length) tail = Buffer.concat([tail, chunk.subarray(body.length)]);
  }
  if (!hash.digest().equals(tail)) throw new Error("the raw copy differs from its source");
  if (fsync) await target.sync();
  const tookMs = performance.now() - began;
  server.close();
  return tookMs;
}

async function writeSource(path: string): Promise<void> {
  const source = await open(path, "w");
  const piece = Buffer.alloc(2 ** 20);
  for (let at = 0; at < byteLength; at += piece.length)
    await source.write(randomFillSync(piece), 0, Math.min(piece.length, byteLength - at), at);
  await source.close();
}

/** Receives one transfer into the file and returns the milliseconds that it took. */
type ReceiveBlocks = (target: FileHandle, fsync: boolean) => Promise<number>;

/** Connects the device to the broker; each call then receives one transfer of its file. */
async function blockReceiver(
  broker: Awaited<ReturnType<typeof startBroker>>,
  child: ChildProcess,
): Promise<ReceiveBlocks> {
  const perform = async (order: Order): Promise<void> => {
    child.send(order);
    await once(child, "message");
  };
  await perform({ do: "connect", url: broker.url });
  let receiver: RunningReceiver | undefined;
  broker.onMessage(({ payload }) => {
    const { body } = decodeEnvelope(payload, { maxBytes: maxBlockBytes + blockOverheadBytes });
    if (body.type === "block") receiver?.onBlock(body);
    if (body.type === "manifest") receiver?.onManifest(body);
    return Promise.resolve();
  });
  const down = buildTopic({ ...names, kind: "down" });
  const send = (body: Body): void => {
    void broker.publish(
      down,
      encodeEnvelope({ protocol: 1, session: 1, sequence: 1, correlation: "", expiresMs: 0, body }),
      { qos: 1 },
    );
  };
  let count = 0;
  return async (target, fsync) => {
    const transfer = (++count).toString(16).padStart(16, "0");
    await perform({ do: "serve", transfer });
    const began = performance.now();
    receiver = runReceiver(
      {
        transfer,
        objects: 1,
        rawBytes: byteLength,
        maxBytes: byteLength,
        maxBlockBytes: blockBytes,
        window,
      },
      {
        clock: nodeClock(),
        budget: new WindowBudget(64 * 2 ** 20),
        slowBudget: slowLinkBudget(blockBytes),
        send,
        write: async (offset, bytes) => {
          await target.write(bytes, 0, bytes.length, offset);
        },
      },
    );
    await receiver.finished;
    if (fsync) await target.sync();
    const tookMs = performance.now() - began;
    send({ type: "transferDone", transfer });
    return tookMs;
  };
}

type Kind = "raw" | "blocks" | "rawFsynced" | "blocksFsynced";

async function measureTransfers({
  folder,
  child,
  receiveBlocks,
}: {
  readonly folder: string;
  readonly child: ChildProcess;
  readonly receiveBlocks: ReceiveBlocks;
}): Promise<Record<Kind, number[]>> {
  const times: Record<Kind, number[]> = {
    raw: [],
    blocks: [],
    rawFsynced: [],
    blocksFsynced: [],
  };
  for (let run = 0; run < runs; run++) {
    for (const [kind, receive, fsync] of [
      ["raw", receiveRaw, false],
      ["blocks", receiveBlocks, false],
      ["rawFsynced", receiveRaw, true],
      ["blocksFsynced", receiveBlocks, true],
    ] as const) {
      const path = join(folder, "target");
      const target = await open(path, "w");
      times[kind].push(
        receive === receiveRaw ? await receiveRaw(child, target, fsync) : await receiveBlocks(target, fsync),
      );
      await target.close();
      await rm(path);
    }
  }
  return times;
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-transfer-"));
  const file = join(folder, "source");
  await writeSource(file);
  const broker = await startBroker({
    root: names.root,
    authenticate: () => Promise.resolve(names),
    clock: nodeClock(),
    log: silentLog(),
  });
  const child = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2)], {
    env: { ...process.env, STEMMA_BENCH_SOURCE: file },
  });
  try {
    const receiveBlocks = await blockReceiver(broker, child);
    report(await measureTransfers({ folder, child, receiveBlocks }));
  } finally {
    const exited = once(child, "exit");
    child.disconnect();
    await broker.close();
    await exited;
    await rm(folder, { recursive: true, force: true });
  }
}

function report(times: Readonly<Record<string, readonly number[]>>): void {
  const median = (values: readonly number[]): number =>
    [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
  const medians = Object.fromEntries(
    Object.entries(times).map(([kind, values]) => [kind, Math.round(median(values))]),
  );
  const ratio = (above: string, below: string): number =>
    Number((median(times[above] ?? []) / median(times[below] ?? [])).toFixed(2));
  const result = {
    mib: byteLength / 2 ** 20,
    runs,
    blockBytes,
    window,
    medianMs: medians,
    mibPerSecond: Math.round(byteLength / 2 ** 20 / (median(times["blocks"] ?? []) / 1000)),
    ratio: ratio("blocks", "raw"),
    ratioFsynced: ratio("blocksFsynced", "rawFsynced"),
  };
  if (options.output === "json") {
    console.log(JSON.stringify(result));
    return;
  }
  console.log(
    `transfer of ${result.mib} MiB in blocks of ${blockBytes} bytes, window ${window}, median of ${runs} alternating runs`,
  );
  for (const [kind, ms] of Object.entries(medians))
    console.log(`  ${kind.padEnd(14)} ${String(ms).padStart(6)} ms`);
  console.log(
    `  blocks / raw   ${result.ratio.toFixed(2)}   (fsynced ${result.ratioFsynced.toFixed(2)}; aim ≤ 1.6)   ${result.mibPerSecond} MiB/s`,
  );
}

const sourceFile = process.env["STEMMA_BENCH_SOURCE"];
if (sourceFile === undefined) await main();
else await runDevice(sourceFile);
