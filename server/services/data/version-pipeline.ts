/** The input pipeline of a version, as its record or that of its base describes it (ME8). */
import { isAverageStory } from "../../../shared/average/average-record.js";
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
  /** The versions whose pipeline it has, where that is the same in all of them; none: its own. */
  readonly sameAs: readonly Hash[];
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
  return await pipelineFrom(repository, versionId, { generations: maxGenerations, known: new Map() });
}

interface Search {
  /** The generations that may still be looked through. */
  readonly generations: number;
  /** The pipelines that were found before: averages may have ancestors in common. */
  readonly known: Map<Hash, RecordedPipeline | undefined>;
}

async function pipelineFrom(
  repository: ProvenanceStore & Pick<FleetRepository, "get">,
  versionId: Hash,
  { generations, known }: Search,
): Promise<RecordedPipeline | undefined> {
  if (generations === 0) return undefined;
  if (known.has(versionId)) return known.get(versionId);
  const record = repository.get(versionId)?.record;
  const { pipeline, sameAs } = (record && (await toldOf(repository, record))) ?? nothingTold;
  let found = pipeline;
  for (const [i, other] of sameAs.entries()) {
    const inherited = await pipelineFrom(repository, other, { generations: generations - 1, known });
    // Models that are averaged may have been given other inputs: then nobody can say which are right.
    if (i > 0 && inherited?.id !== found?.id) {
      found = undefined;
      break;
    }
    found = inherited;
  }
  known.set(versionId, found);
  return found;
}

const nothingTold: RecordedStatement = { pipeline: undefined, sameAs: [] };

async function toldOf(
  repository: ProvenanceStore,
  { scheme, bases, objects }: SaveRecord,
): Promise<RecordedStatement | undefined> {
  // A reduced model takes the inputs of the exact one.
  if (scheme !== undefined) return { pipeline: undefined, sameAs: bases.slice(0, 1) };
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
    const { bases } = opened.provenance;
    if (isAverageStory(opened)) return { pipeline: undefined, sameAs: bases };
    return tookSamplesAsGiven(opened)
      ? { pipeline: undefined, sameAs: bases.slice(0, 1) }
      : { pipeline: recordedPipeline(opened), sameAs: [] };
  } catch (error) {
    // A record that does not verify is reported where it is looked at; here it describes nothing.
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}
