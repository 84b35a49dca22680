/** The input pipeline of a version, as its record or that of its base describes it (ME8). */
import { isStemmaError } from "../../../shared/errors.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { recordedPipeline, type RecordedPipeline } from "../../../shared/provenance/recorded-pipeline.js";
import { tookSamplesAsGiven } from "../../../shared/provenance/samples-as-given.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { readOpenedProvenance, type ProvenanceStore } from "../context/opened-provenance.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** Fine-tunings, one after the other, that are looked through. */
const maxGenerations = 64;

/** The data pipeline that a record states. */
interface RecordedStatement {
  readonly pipeline: RecordedPipeline | undefined;
  /** The version whose pipeline it has; undefined: its own. */
  readonly sameAs: Hash | undefined;
}

/**
 * The statements by provenance and openings, from which they follow: a rollout offers one version to
 * thousands of devices, and a record may be a megabyte long.
 */
const toldBy = new Map<string, RecordedStatement>();
const maxKept = 16;

/** Reads a version's pipeline; undefined where none is described, or the description was redacted or cannot be read. */
export async function pipelineOfVersion(
  repository: ProvenanceStore & Pick<FleetRepository, "get">,
  versionId: Hash,
): Promise<RecordedPipeline | undefined> {
  let at = versionId;
  for (let generation = 0; generation < maxGenerations; generation++) {
    const record = repository.get(at)?.record;
    const told = record && (await toldOf(repository, record));
    if (told?.sameAs === undefined) return told?.pipeline;
    at = told.sameAs;
  }
  return undefined;
}

async function toldOf(
  repository: ProvenanceStore,
  { scheme, bases, objects }: SaveRecord,
): Promise<RecordedStatement | undefined> {
  // A reduced model takes the inputs of the exact one.
  if (scheme !== undefined) return { pipeline: undefined, sameAs: bases[0] };
  const { provenance, openings } = objects;
  const isOpen =
    openings !== undefined && !repository.isRedacted(openings) && repository.objects.has(openings);
  const key = `${provenance} ${isOpen ? openings : ""}`;
  const known = toldBy.get(key);
  if (known !== undefined) return known;
  const told = await readTold(repository, objects);
  if (told !== undefined) toldBy.set(key, told);
  const [oldest] = toldBy.keys();
  if (toldBy.size > maxKept && oldest !== undefined) toldBy.delete(oldest);
  return told;
}

async function readTold(
  repository: ProvenanceStore,
  objects: SaveRecord["objects"],
): Promise<RecordedStatement | undefined> {
  try {
    const opened = await readOpenedProvenance(repository, objects);
    if (opened === undefined) return undefined;
    return tookSamplesAsGiven(opened)
      ? { pipeline: undefined, sameAs: opened.provenance.bases[0] }
      : { pipeline: recordedPipeline(opened), sameAs: undefined };
  } catch (error) {
    // A record that does not verify is reported where it is looked at; here it describes nothing.
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}
