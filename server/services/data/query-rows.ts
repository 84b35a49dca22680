/**
 * Rows of a SQL query over a SQLite file, as a CSV table. The query is not part of the engine: like any other export it
 * only makes rows, and the rows, not the program that found them, decide the bits of a training. They are kept, and
 * their hash and the query are recorded.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { messageOf } from "../../../shared/error-text.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Files } from "../../../shared/ports.js";
import { queryRefused, queryWithoutRows, unreadable } from "./data-errors.js";

/** A copy of the database is in memory while the query runs. */
const maxDatabaseBytes = 1024 * 1024 * 1024;
const maxRowCharacters = 256 * 1024 * 1024;
const maxQueryCharacters = 10_000;
const maxQueryMs = 120_000;

export interface QueryWork {
  readonly database: Uint8Array;
  readonly query: string;
  readonly maxBytes: number;
}

export type QueryAnswer = { readonly rows: string; readonly count: number } | { readonly problem: string };

export interface QueryRows {
  /** CSV with a header line. */
  readonly csv: string;
  readonly count: number;
  /** SHA-256 of the database file. */
  readonly database: string;
}

/**
 * Runs a query that reads one table.
 * @throws DATASET_MALFORMED, DATASET_EMPTY, FILE_MISSING, FILE_FAILED
 */
export async function rowsOfQuery(path: string, query: string, maxMs = maxQueryMs): Promise<QueryRows> {
  if (query.length > maxQueryCharacters)
    throw queryRefused(`it has more than ${maxQueryCharacters} characters`);
  const database = await readDatabase(path);
  const hash = createHash("sha256").update(database).digest("hex");
  const answer = await runInThread({ database, query, maxBytes: maxRowCharacters }, maxMs);
  if ("problem" in answer) throw queryRefused(answer.problem, { path });
  if (answer.count === 0) throw queryWithoutRows(path);
  return { csv: answer.rows, count: answer.count, database: hash };
}

async function readDatabase(path: string): Promise<Uint8Array> {
  let size: number;
  try {
    ({ size } = await stat(path));
  } catch (cause) {
    throw unreadable(path, cause);
  }
  if (size > maxDatabaseBytes)
    throw queryRefused(`the database has ${size} bytes, and at most ${maxDatabaseBytes} are read`, { path });
  return await readFile(path);
}

async function runInThread(work: QueryWork, maxMs: number): Promise<QueryAnswer> {
  const worker = new Worker(new URL("./query-worker.js", import.meta.url), { workerData: work, env: {} });
  const timer = AbortSignal.timeout(maxMs);
  try {
    const [answer] = (await once(worker, "message", { signal: timer })) as [QueryAnswer];
    return answer;
  } catch (cause) {
    if (timer.aborted) throw queryRefused(`it takes more than ${maxMs / 1000} s`);
    throw queryRefused(messageOf(cause), { cause });
  } finally {
    await worker.terminate();
  }
}

/** Writes rows into the home, where the reader csv reads them; equal rows have one file. Returns the path. */
export async function keepRows(files: Files, folder: string, { csv }: QueryRows): Promise<string> {
  const bytes = Buffer.from(csv, "utf8");
  const path = join(folder, `${createHash("sha256").update(bytes).digest("hex")}.csv`);
  await files.makeFolder(folder);
  await writeDurably(files, path, bytes);
  return path;
}
