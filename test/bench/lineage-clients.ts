/**
 * The nearest model asked by many clients of a running server, while models are added and retired; and the first
 * question after a start, with and without the cache of identities. For `stemma bench lineage`.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { ServerOperations } from "../../server/interface/api/server-operations.js";
import { openHome } from "../../server/storage/repository/home.js";
import { nodeHomePorts } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { weightSlots } from "../../shared/model/architecture.js";
import { modelSourceOfTensors } from "../../shared/save/model-source.js";
import {
  candidateArchitecture,
  randomNumbers,
  savable,
  searchedChoices,
} from "../helpers/random-architectures.js";
import { startServerProcess } from "../../server/cli/simulation/server-process.js";

export interface ClientsResult {
  readonly models: number;
  /** Milliseconds of the first question after a start of the server, and of the one after it. */
  readonly first: { readonly withoutCacheMs: number; readonly withCacheMs: number; readonly laterMs: number };
  readonly rows: readonly ClientsRow[];
}

export interface ClientsRow {
  readonly clients: number;
  readonly queries: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Models that were added and retired meanwhile. */
  readonly added: number;
  readonly retired: number;
}

const fleet = "bench";

/** Saves different candidates of a search; their tensors do not matter here. */
async function saveModels(path: string, count: number): Promise<void> {
  const home = await openHome(path, nodeHomePorts());
  const repository = await openRepository(home, fleet);
  const saves = searchedChoices(count, randomNumbers(1)).map((choices, index) => {
    const architecture = savable(candidateArchitecture(choices));
    const tensors = weightSlots(architecture).map(({ dtype, shape }) => ({
      dtype,
      shape,
      bytes: new Uint8Array(4 * shape.reduce((product, extent) => product * extent, 1)).fill(index % 251),
    }));
    return () => repository.save(modelSourceOfTensors(architecture, tensors), { name: `m${index}` });
  });
  const lanes = Array.from({ length: 16 }, async () => {
    for (let save = saves.pop(); save !== undefined; save = saves.pop()) await save();
  });
  await Promise.all(lanes);
  await repository.close();
  await home.close();
}

async function msOf(run: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await run();
  return performance.now() - startedMs;
}

/** Adds a child of one model, retires it, and so on, until it is told to stop. */
async function comeAndGo(
  operations: ServerOperations,
  isStopped: () => boolean,
): Promise<{ added: number; retired: number }> {
  const stream = await operations.recover({ fleet, model: "m0" });
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream.chunks) chunks.push(chunk);
  await stream.report;
  const done = { added: 0, retired: 0 };
  while (!isStopped()) {
    const file = Buffer.concat(chunks);
    file.writeInt32LE(done.added, file.length - 4);
    const { summary } = await operations.import(
      { byteLength: file.length, chunks: Readable.from([file]) },
      { fleet, name: "child", base: "m0", story: "ignore" },
    );
    done.added++;
    await operations.retire({ fleet, model: summary!.versionId });
    done.retired++;
  }
  return done;
}

async function askConcurrently(
  operations: ServerOperations,
  {
    clients,
    queries,
    models,
  }: { readonly clients: number; readonly queries: number; readonly models: number },
): Promise<ClientsRow> {
  const random = randomNumbers(clients);
  const times: number[] = [];
  let left = queries;
  let stopped = false;
  const changes = comeAndGo(operations, () => stopped);
  const elapsedMs = await msOf(() =>
    Promise.all(
      Array.from({ length: clients }, async () => {
        while (left-- > 0) {
          const model = `m${1 + random(models - 1)}`;
          times.push(await msOf(() => operations.nearest({ fleet, model })));
        }
      }),
    ),
  );
  stopped = true;
  const { added, retired } = await changes;
  times.sort((a, b) => a - b);
  const quantile = (share: number): number => times[Math.floor(share * (times.length - 1))] ?? 0;
  return {
    clients,
    queries,
    perSecond: (1000 * queries) / elapsedMs,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    added,
    retired,
  };
}

/** @param queries in total, shared out to each number of clients */
export async function measureClients(models: number, queries: number): Promise<ClientsResult> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-bench-lineage-"));
  const path = join(folder, "home");
  try {
    await saveModels(path, models);
    const ask = { fleet, model: "m1" };
    const cold = await startServerProcess(path, fleet);
    const withoutCacheMs = await msOf(() => cold.operations.nearest(ask));
    await cold.kill("SIGTERM");
    const server = await startServerProcess(path, fleet);
    try {
      const withCacheMs = await msOf(() => server.operations.nearest(ask));
      const laterMs = await msOf(() => server.operations.nearest({ fleet, model: "m2" }));
      const counts = [1, 8, 64, 512];
      const rows: ClientsRow[] = [];
      for (const clients of counts) {
        const share = Math.max(clients, Math.round(queries / counts.length));
        rows.push(await askConcurrently(server.operations, { clients, queries: share, models }));
      }
      return { models, first: { withoutCacheMs, withCacheMs, laterMs }, rows };
    } finally {
      await server.kill("SIGTERM");
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
