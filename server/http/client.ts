/**
 * The remote door to a home: the operations of a running server, over its local socket or a URL.
 * Every method is one request to the route of the same meaning (routes/); typed errors arrive typed.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { readRunFolder } from "../repository/home.js";
import type {
  ModelReference,
  RecoveryReport,
  RecoveryStream,
  ServerEvent,
  ServerOperations,
  TrainProgress,
  TrainReport,
} from "../operations/operations.js";
import type { ArchiveAnswer } from "./archive-jobs.js";
import { followJob } from "./follow-job.js";
import { encodeImportOptions, importContentType } from "./import-frame.js";
import { type Connection, send, sendForJson } from "./request.js";

/** What a running server writes into its home for those who look for it. */
export interface RunningServer {
  readonly pid: number;
  readonly socketPath: string;
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly startedAtMs: number;
  readonly fleets: readonly string[];
}

/** Name of that file in the home's run folder. */
export const runningServerFile = "server.json";

/** The server that holds a home, if one answers there now. */
export async function findLocalServer(home: string): Promise<RunningServer | undefined> {
  const folder = await readRunFolder(nodeFiles(), home);
  if (folder === undefined) return undefined;
  let found: RunningServer;
  try {
    found = JSON.parse(await readFile(join(folder, runningServerFile), "utf8")) as RunningServer;
  } catch {
    return undefined;
  }
  if (typeof found.socketPath !== "string") return undefined;
  try {
    const health = await sendForJson<{ readonly pid?: number }>(
      { socketPath: found.socketPath, timeoutMs: 5_000 },
      { path: "/v1/health" },
    );
    return health.pid === found.pid ? found : undefined;
  } catch {
    return undefined;
  }
}

const longMs = 30 * 60_000;
const part = encodeURIComponent;
const fleetPath = (fleet: string): string => `/v1/fleets/${part(fleet)}`;
const modelPath = ({ fleet, model }: ModelReference): string => `${fleetPath(fleet)}/models/${part(model)}`;
function query(values: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const given = Object.entries(values).filter(
    (entry): entry is [string, string | number | boolean] => entry[1] !== undefined,
  );
  return given.length === 0
    ? ""
    : `?${given.map(([name, value]) => `${part(name)}=${part(String(value))}`).join("&")}`;
}

/** @param pollMs how often the progress of a training or of storage work is asked for */
export function connectOperations(connection: Connection, pollMs = 500): ServerOperations {
  const get = <T>(path: string, timeoutMs?: number): Promise<T> =>
    sendForJson<T>(connection, { path, timeoutMs });
  const post = <T>(path: string, json: unknown = {}, timeoutMs?: number): Promise<T> =>
    sendForJson<T>(connection, { method: "POST", path, json, timeoutMs });
  return {
    health: () => get("/v1/health"),
    fleets: () => get("/v1/fleets"),

    devices: (fleet) => get(`${fleetPath(fleet)}/devices`),
    device: (fleet, device) => get(`${fleetPath(fleet)}/devices/${part(device)}`),
    enroll: ({ fleet, ...options }) => post(`${fleetPath(fleet)}/devices`, options),
    revoke: (fleet, device, because) =>
      post(`${fleetPath(fleet)}/devices/${part(device)}/revoke`, { because }),
    assign: (fleet, device, line, model, options) =>
      post(`${fleetPath(fleet)}/devices/${part(device)}/assign`, { line, model, ...options }),
    trainOnDevice: (fleet, device, line, parameters) =>
      post(`${fleetPath(fleet)}/devices/${part(device)}/train`, { line, parameters }),
    command: (fleet, device, name, body, timeoutMs) =>
      post(
        `${fleetPath(fleet)}/devices/${part(device)}/commands`,
        { name, body, timeoutMs },
        (timeoutMs ?? 30_000) + 30_000,
      ),

    models: (fleet, filter = {}) => get(`${fleetPath(fleet)}/models${query({ ...filter })}`),
    model: (reference) => get(modelPath(reference)),
    log: (reference) => get(`${modelPath(reference)}/log`),
    diff: (a, b) =>
      get(
        `${fleetPath(a.fleet)}/diff${query({ a: a.model, b: b.model, otherFleet: b.fleet === a.fleet ? undefined : b.fleet })}`,
        longMs,
      ),
    recover: (reference, options) =>
      recoverOver(
        connection,
        `${modelPath(reference)}/tensors${query({ environment: options?.environment })}`,
      ),
    verify: (reference) => post(`${modelPath(reference)}/verify`, {}, longMs),
    asOf: (fleet, atMs) => get(`${fleetPath(fleet)}/as-of${query({ at: atMs })}`),
    import: (stream, options) =>
      sendForJson(connection, {
        method: "POST",
        path: `${fleetPath(options.fleet)}/import`,
        timeoutMs: longMs,
        body: {
          contentType: importContentType,
          chunks: (async function* () {
            yield encodeImportOptions(options);
            yield* stream.chunks;
          })(),
        },
      }),
    tag: (reference, tag, remove) => post(`${modelPath(reference)}/tag`, { tag, remove }),
    hold: (reference, held, because, by) => post(`${modelPath(reference)}/hold`, { held, because, by }),
    retire: (reference, because, options = {}) =>
      post(`${modelPath(reference)}/retire`, { because, ...options }),
    train: ({ fleet, ...request }, onProgress, signal) =>
      trainOver(connection, fleet, request, pollMs, onProgress, signal),
    reduce: ({ fleet, model, ...request }) => post(`${modelPath({ fleet, model })}/reduce`, request, longMs),
    evaluate: ({ fleet, model, ...request }, signal) =>
      sendForJson(connection, {
        method: "POST",
        path: `${modelPath({ fleet, model })}/evaluate`,
        json: request,
        signal,
        timeoutMs: longMs,
      }),
    evaluateProgressively: ({ fleet, model, ...request }, signal) =>
      sendForJson(connection, {
        method: "POST",
        path: `${modelPath({ fleet, model })}/evaluate-progressively`,
        json: request,
        signal,
        timeoutMs: longMs,
      }),

    datasets: (fleet) => get(`${fleetPath(fleet)}/datasets`),
    addDataset: (fleet, dataset) => post(`${fleetPath(fleet)}/datasets`, dataset, longMs),
    checkDataset: (fleet, name) => post(`${fleetPath(fleet)}/datasets/${part(name)}/check`, {}, longMs),

    stats: (fleet) => get(`${fleetPath(fleet)}/storage/stats`),
    check: (fleet, options = {}) => post(`${fleetPath(fleet)}/storage/check`, options, longMs),
    planCollection: (fleet) => get(`${fleetPath(fleet)}/storage/collection`, longMs),
    collect: (fleet, plan) => post(`${fleetPath(fleet)}/storage/collection`, plan, longMs),
    retention: (fleet) => get(`${fleetPath(fleet)}/storage/retention`),
    setRetention: (fleet, scope, rule, by) =>
      post(`${fleetPath(fleet)}/storage/retention`, { scope, rule, by }),
    forecastRetention: (fleet, options = {}) =>
      post(`${fleetPath(fleet)}/storage/retention/forecast`, options, longMs),
    applyRetention: (fleet, options = {}) =>
      post(`${fleetPath(fleet)}/storage/retention/apply`, options, longMs),
    planStorage: async (fleet, options, onProgress, signal) => {
      const answer = await archiveOver(connection, fleet, "plan", options, pollMs, onProgress, signal);
      if (!("plan" in answer))
        throw new StemmaError(
          "INTERNAL",
          "The server answered a question for a storage plan with something else. Check that it is a Stemma server of this version.",
        );
      return answer.plan;
    },
    applyStorage: async (fleet, options, onProgress, signal) => {
      const answer = await archiveOver(connection, fleet, "apply", options, pollMs, onProgress, signal);
      if (!("applied" in answer))
        throw new StemmaError(
          "INTERNAL",
          "The server answered the application of a storage plan with something else. Check that it is a Stemma server of this version.",
        );
      return answer.applied;
    },
    reindex: (fleet) => post(`${fleetPath(fleet)}/storage/reindex`, {}, longMs),
    backup: (fleet, folder) => post(`${fleetPath(fleet)}/storage/backup`, { folder }, longMs),

    events: (signal) => eventsOver(connection, signal),
    close: async () => undefined,
  };
}

async function recoverOver(connection: Connection, path: string): Promise<RecoveryStream> {
  const answer = await send(connection, { path, timeoutMs: longMs });
  const report = JSON.parse(
    Buffer.from(String(answer.headers["stemma-recovery"] ?? ""), "base64url").toString("utf8") || "null",
  ) as RecoveryReport | null;
  const byteLength = Number(answer.headers["content-length"]);
  if (report === null || !Number.isSafeInteger(byteLength)) {
    answer.destroy();
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "The server's answer to a recovery carries no report. Check that it is a Stemma server of this version.",
    );
  }
  let settle: { resolve(report: RecoveryReport): void; reject(error: unknown): void } | undefined;
  const ended = new Promise<RecoveryReport>((resolve, reject) => {
    settle = { resolve, reject };
  });
  ended.catch(() => undefined); // its reader may come later, or never
  return {
    byteLength,
    report: ended,
    expected: report,
    chunks: (async function* () {
      let received = 0;
      try {
        for await (const chunk of answer as AsyncIterable<Buffer>) {
          received += chunk.length;
          yield chunk;
        }
        if (received !== byteLength) throw new Error(`${received} of ${byteLength} bytes came`);
        settle?.resolve(report);
      } catch (cause) {
        // The server keeps the last piece back until the root is verified: a whole body is a right one, a
        // broken one says so here.
        const error = new StemmaError(
          "RECOVERY_INCOMPLETE",
          `The recovery of ${report.name}:${report.version} broke off after ${received} of ${byteLength} bytes; nothing of it may be used. \`stemma model verify\` says whether the stored model is damaged.`,
          { cause, received, byteLength },
        );
        settle?.reject(error);
        throw error;
      } finally {
        settle?.reject(
          new StemmaError("RECOVERY_INCOMPLETE", "The recovery was not read to its end.", { received }),
        );
        answer.destroy();
      }
    })(),
  };
}

async function trainOver(
  connection: Connection,
  fleet: string,
  request: object,
  pollMs: number,
  onProgress: Parameters<ServerOperations["train"]>[1],
  signal?: AbortSignal,
): Promise<TrainReport> {
  return await followJob<TrainProgress, TrainReport>(connection, {
    start: `${fleetPath(fleet)}/train`,
    json: request,
    jobs: `${fleetPath(fleet)}/train`,
    pollMs,
    onProgress,
    signal,
  });
}

async function archiveOver(
  connection: Connection,
  fleet: string,
  what: "plan" | "apply",
  json: object,
  pollMs: number,
  onProgress?: (line: string) => void,
  signal?: AbortSignal,
): Promise<ArchiveAnswer> {
  const storage = `${fleetPath(fleet)}/storage`;
  return await followJob<string, ArchiveAnswer>(connection, {
    start: `${storage}/${what}`,
    json,
    jobs: `${storage}/jobs`,
    pollMs,
    onProgress,
    signal,
  });
}

async function* eventsOver(connection: Connection, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const answer = await send(connection, { path: "/v1/events", signal, timeoutMs: 24 * 3600_000 });
  let text = "";
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      text += piece.toString("utf8");
      for (let at = text.indexOf("\n\n"); at >= 0; at = text.indexOf("\n\n")) {
        const block = text.slice(0, at);
        text = text.slice(at + 2);
        const data = block
          .split("\n")
          .filter((line) => line.startsWith("data: "))
          .map((line) => line.slice(6))
          .join("\n");
        if (data !== "") yield JSON.parse(data) as ServerEvent;
      }
      if (text.length > 1024 * 1024)
        throw new StemmaError(
          "SERVER_UNREACHABLE",
          "The event stream is malformed. Check that it is a Stemma server of this version.",
        );
    }
  } catch (cause) {
    if (signal.aborted) return;
    if (cause instanceof StemmaError) throw cause;
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "The event stream broke off: the server has stopped or cannot be reached any more.",
      { cause },
    );
  } finally {
    answer.destroy();
  }
}
