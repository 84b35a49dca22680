/** The data of a training, as its version names them: where they are kept, and the samples where they may be sent. */
import { codeChunk } from "../../shared/data/chunk-coding.js";
import { cutChunks } from "../../shared/data/cut-chunks.js";
import {
  encodeDataManifest,
  placeManifest,
  type DataChunk,
  type DataPlace,
} from "../../shared/data/data-manifest.js";
import { encodeDescription } from "../../shared/data/data-description.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import { maxDataSets } from "../../shared/model/record-uses.js";
import type { Files } from "../../shared/ports.js";
import type { UsedObject } from "../../shared/save/save-uses.js";
import { usedData } from "../../shared/save/used-bytes.js";
import { objectId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { canonicalSamples } from "../../shared/train/datasets/canonical-samples.js";
import { isGenerator, loadDataset } from "../../shared/train/datasets/registry.js";
import type { DataUsed } from "../saving/store-model.js";
import type { BegunTraining } from "../outbox/outbox-state.js";
import { placedDataset, type JobOptions } from "./training-job.js";

/** The largest number of bytes of coded samples that go with a version; they are in memory until it is saved. */
const maxSentSampleBytes = 8 * 1024 * 1024;

export interface DataOfTraining {
  readonly line: string;
  readonly job: Pick<BegunTraining["job"], "dataset" | "samples">;
  /** Hash of the samples that the engine read. */
  readonly content: Hash;
  /** The number of other data objects that the version names. */
  readonly others?: number;
}

/**
 * A manifest with the chunks of the samples, and what their reader says of them, where `sendSamples` of the line is
 * set, and everything fits; else a small object that states that they stay here. Nothing for a trainer that has data of
 * its own.
 */
export async function dataUsedBy(
  options: Pick<JobOptions, "config" | "intakes"> & { readonly files: Files },
  training: DataOfTraining,
): Promise<DataUsed> {
  const { line, job, content, others = 0 } = training;
  const maxObjects = maxDataSets - others;
  if (job.dataset.reader === "none") return { objects: [], bytes: 0 };
  if (isGenerator(job.dataset.reader)) return placed(content, "generator");
  if (options.config.lines[line]?.sendSamples !== true) return placed(content, "device");
  try {
    const dataset = placedDataset(options, line, job);
    const { set } = await loadDataset({ ...dataset, hash: content }, options.files);
    const description = encodeDescription(content, dataset, set.description);
    return (
      (await chunksOf(canonicalSamples(set), { content, description, maxObjects })) ?? {
        ...placed(content, "device"),
        whyNot: `they have more than ${maxSentSampleBytes} bytes, or more than ${maxObjects - 2} chunks`,
      }
    );
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return { ...placed(content, "device"), whyNot: messageOf(error) };
  }
}

function placed(content: Hash, kept: Exclude<DataPlace, "chunks">): DataUsed {
  const bytes = placeManifest(content, kept);
  return { objects: [usedData(bytes)], bytes: bytes.length };
}

/** Cuts samples to chunks; undefined where there are more than one version may have. */
async function chunksOf(
  pieces: Iterable<Uint8Array>,
  {
    content,
    description,
    maxObjects,
  }: { readonly content: Hash; readonly description: Uint8Array | undefined; readonly maxObjects: number },
): Promise<DataUsed | undefined> {
  const chunks: DataChunk[] = [];
  const objects = new Map<Hash, UsedObject>();
  let bytes = 0;
  let byteLength = 0;
  for await (const chunk of cutChunks(pieces)) {
    const coded = await codeChunk(chunk);
    const id = objectId("data", coded);
    chunks.push({ id, byteLength: chunk.length });
    byteLength += chunk.length;
    if (objects.has(id)) continue;
    objects.set(id, usedData(coded));
    bytes += coded.length;
    if (bytes > maxSentSampleBytes || objects.size >= maxObjects - 1) return undefined;
  }
  const manifest = encodeDataManifest({ kept: "chunks", content, byteLength, chunks, isCoded: true });
  return {
    objects: [
      usedData(manifest),
      ...objects.values(),
      ...(description === undefined ? [] : [usedData(description)]),
    ],
    bytes: bytes + manifest.length + (description?.length ?? 0),
  };
}
