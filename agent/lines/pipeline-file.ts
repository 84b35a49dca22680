/**
 * Provides the input pipeline that is installed beside a version (ME8). For a version from the server that is
 * what its offer brought; for one that this device trained what its own record describes, or that of its
 * base, whose inputs the application made when it gave the samples.
 */
import type { SaveRecord } from "../../shared/model/model.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { isProvenance1 } from "../../shared/provenance/encode-provenance.js";
import { openProvenance } from "../../shared/provenance/openings.js";
import { pipelineFileName } from "../../shared/provenance/pipeline-file-name.js";
import { tookSamplesAsGiven } from "../../shared/provenance/samples-as-given.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { SlotFile } from "../../shared/layouts/slot-files.js";
import type { CurrentStore } from "../current/current-store.js";
import type { OutboxEntry } from "../outbox/outbox-state.js";

export interface PipelineSources {
  readonly objects: Pick<ObjectReader, "has" | "read">;
  readonly current: Pick<CurrentStore, "fileOf">;
  entry(versionId: Hash): Pick<OutboxEntry, "origin" | "pipeline"> | undefined;
  /** The pipeline file that the version's folder had, where it is installed again. */
  readonly before: Uint8Array | undefined;
}

type Record = Pick<SaveRecord, "bases" | "objects">;
type Bytes = Promise<Uint8Array | undefined>;

/** Fine-tunings, one after the other, that were never installed. */
const maxGenerations = 64;

/** One file, or none. @throws OBJECT_HASH_MISMATCH, PROVENANCE_INVALID, OPENINGS_MISMATCH: the store is damaged */
export async function pipelineFile(
  sources: PipelineSources,
  versionId: Hash,
  record: Record,
): Promise<readonly SlotFile[]> {
  const bytes = (await pipelineOf(sources, versionId, record, 0)) ?? sources.before;
  return bytes === undefined ? [] : [{ name: pipelineFileName, chunks: [bytes] }];
}

async function pipelineOf(
  sources: PipelineSources,
  versionId: Hash,
  record: Record,
  generation: number,
): Bytes {
  const entry = sources.entry(versionId);
  const own = entry?.origin === "trained" ? await ownPipeline(sources, record, generation) : undefined;
  if (own !== undefined) return own;
  const given = entry?.pipeline;
  return given !== undefined && sources.objects.has(given)
    ? await sources.objects.read("pipeline", given)
    : undefined;
}

async function ownPipeline(
  sources: PipelineSources,
  { bases, objects: of }: Record,
  generation: number,
): Bytes {
  const { objects } = sources;
  if (of.provenance === undefined || !objects.has(of.provenance)) return undefined;
  const bytes = await objects.read("provenance", of.provenance);
  if (!isProvenance1(bytes)) return undefined;
  const isOpen = of.openings !== undefined && objects.has(of.openings);
  const opened = openProvenance(bytes, isOpen ? await objects.read("openings", of.openings) : undefined);
  if (tookSamplesAsGiven(opened)) return ofBase(sources, bases[0], generation);
  // Loaded only here: it brings the readers of pictures, texts and tables with it.
  const { recordedPipeline } = await import("../../shared/provenance/recorded-pipeline.js");
  return recordedPipeline(opened)?.bytes;
}

/** A base that was never installed, or whose folder was removed, is looked up in the outbox. */
async function ofBase(sources: PipelineSources, base: Hash | undefined, generation: number): Bytes {
  if (base === undefined) return undefined;
  const installed = await sources.current.fileOf(base, pipelineFileName);
  if (installed !== undefined || generation === maxGenerations || !sources.objects.has(base))
    return installed;
  const record = decodeSaveRecord(await sources.objects.read("record", base));
  return pipelineOf(sources, base, record, generation + 1);
}
