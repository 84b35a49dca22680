/**
 * Fetches data that are managed elsewhere, by their URL, into a temporary file whenever they are read.
 * Whoever reads them compares them with the hash that they were registered with. Nothing of them is kept.
 */
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { connectionProblem } from "../../../shared/connection-error.js";
import { isUrl } from "../../../shared/data/data-url.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { proxiedFetch } from "../network/proxied-fetch.js";
import { dataTooLarge, dataUrlInvalid, notFetched, notServed } from "./data-errors.js";

/** Readers of one file. */
const fileReaders = ["csv", "libsvm", "samples", "canonical"];
const maxBytes = 4 * 2 ** 30;
/** The longest time of a whole download. */
const maxFetchMs = 30 * 60_000;

export interface PlacedData {
  /** A path, or "" for a reader that makes its samples. */
  readonly location: string;
  /** Removes what was fetched. */
  readonly release: () => Promise<void>;
}

/**
 * Checks the URL of data.
 * @throws RECIPE_PARAMETERS_INVALID
 */
function requireDataUrl(location: string, reader: string): URL {
  const refuse = (problem: string): StemmaError => dataUrlInvalid(problem, reader);
  if (!fileReaders.includes(reader))
    throw refuse(`The reader ${reader} needs files on this machine; by a URL go ${fileReaders.join(", ")}.`);
  let url: URL;
  try {
    url = new URL(location);
  } catch {
    throw refuse(`${location.slice(0, 200)} is not a valid URL.`);
  }
  if (!["http:", "https:"].includes(url.protocol))
    throw refuse(`Data are fetched from http:// and https://, not from ${url.protocol}//.`);
  if (url.username !== "" || url.password !== "")
    throw refuse("The URL has a user name or password, which would be recorded.");
  return url;
}

/**
 * Makes data readable: as they are, or fetched into a folder of their own below `workFolder`.
 * @throws FILE_MISSING, FILE_FAILED where a URL cannot be fetched; RECIPE_PARAMETERS_INVALID
 */
export async function placeData(
  { kind, location }: { readonly kind: string; readonly location: string },
  workFolder: string,
): Promise<PlacedData> {
  if (!isUrl(location)) return { location, release: () => Promise.resolve() };
  const url = requireDataUrl(location, kind);
  await mkdir(workFolder, { recursive: true });
  const folder = await mkdtemp(join(workFolder, "fetched-"));
  const release = (): Promise<void> => rm(folder, { recursive: true, force: true });
  // The reader of samples tells lines and segments apart by the end of the name.
  const name = basename(url.pathname)
    .replace(/[^A-Za-z0-9._-]/g, "_")
    .slice(-100);
  const path = join(folder, /^\.*$/.test(name) ? "data" : name);
  try {
    await download(url, path);
    return { location: path, release };
  } catch (error) {
    await release();
    if (isStemmaError(error)) throw error;
    const { why, next } = connectionProblem(error);
    throw notFetched(url, why, next, error);
  }
}

async function download(url: URL, path: string): Promise<void> {
  const answer = await proxiedFetch(url, { signal: AbortSignal.timeout(maxFetchMs) });
  if (!answer.ok || answer.body === null) {
    await answer.body?.cancel();
    throw notServed(url, answer.status);
  }
  let received = 0;
  const bounded = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      received += chunk.length;
      if (received > maxBytes) throw dataTooLarge(url.href, maxBytes);
      yield chunk;
    }
  };
  await pipeline(
    Readable.fromWeb(answer.body as ReadableStream<Uint8Array>),
    bounded,
    createWriteStream(path),
  );
}

/** Gives `work` a place where the data can be read, and removes what was fetched for it afterwards. */
export async function withPlacedData<
  Dataset extends { readonly kind: string; readonly location: string },
  Result,
>(dataset: Dataset, workFolder: string, work: (placed: Dataset) => Promise<Result>): Promise<Result> {
  const { location, release } = await placeData(dataset, workFolder);
  try {
    return await work({ ...dataset, location });
  } finally {
    await release();
  }
}
