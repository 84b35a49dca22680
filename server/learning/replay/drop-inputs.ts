/** Finds what the replay of a version would need if its tensors were dropped, and whether all of it is here. */
import { isAverageStory } from "../../../shared/average/average-record.js";
import { readManifest } from "../../../shared/data/stored-data.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { Dropped, VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { predictedCost } from "../training/bounded-cost.js";
import { storyOf, type Story } from "./story.js";
import { isProgramStory } from "./told-story.js";

export type ReplayNeeds = Pick<Dropped, "base" | "engine" | "engineId" | "data">;

export interface ReplayInputs {
  readonly needs: ReplayNeeds;
  /** Milliseconds that its training is predicted to take. */
  readonly predictedMs: number | undefined;
}

/** @returns why no replay can stand for its tensors, as text. @throws PROVENANCE_INVALID, OPENINGS_MISMATCH */
export async function findReplayInputs(
  repository: FleetRepository,
  summary: VersionSummary,
): Promise<ReplayInputs | string> {
  const told = await readOpenedProvenance(repository, summary.record.objects);
  if (told !== undefined && isProgramStory(told))
    return "a program of its owner's own made it, and nothing would give its tensors once that is not approved any more";
  if (told !== undefined && isAverageStory(told))
    return "it is the average of several bases, and a recovery goes back along one";
  const read = storyOf(told);
  if ("unreplayable" in read) return read.unreplayable.text;
  const { story } = read;
  if (story.exactness !== "wasm") return "only a machine of its exactness class gives its bits";
  const base = story.base ?? null;
  if (base !== (summary.record.bases[0] ?? null)) return "its record and its story name different bases";
  const engine = storedEngine(repository, summary, story);
  if (engine === undefined)
    return `no engine that gave its tensors is stored here; stemma replay engine approve stores ${story.engineId.slice(0, 12)}`;
  const data = await findStoredData(repository, summary, story);
  if (typeof data === "string") return data;
  const { ms } = await predictedCost(repository, { opened: read.opened, record: summary.record });
  return { needs: { base, ...engine, data: data.manifest }, predictedMs: ms };
}

/** The engine of the latest proof, or of an earlier one; where there is none yet, the one that the story names. */
function storedEngine(
  repository: FleetRepository,
  { replayed, provedBy = [], record }: VersionSummary,
  { engineId }: Story,
): Pick<ReplayNeeds, "engine" | "engineId"> | undefined {
  const stored = repository.engines().filter(({ isStored }) => isStored);
  const wanted =
    provedBy.length === 0 ? [engineId] : [...provedBy.filter((id) => id === replayed?.engineId), ...provedBy];
  for (const id of wanted) {
    const ofId = stored.filter((each) => each.engineId === id);
    const found = ofId.find(({ engine }) => engine === record.uses?.engine) ?? ofId[0];
    if (found !== undefined) return { engine: found.engine, engineId: found.engineId };
  }
  return undefined;
}

async function findStoredData(
  repository: FleetRepository,
  { record }: VersionSummary,
  { data: { hash, description } }: Story,
): Promise<{ readonly manifest: Hash | null } | string> {
  for (const id of record.uses?.data ?? []) {
    const manifest = await readManifest(repository.objects, id);
    if (manifest?.content === hash && manifest.kept === "chunks") return { manifest: id };
  }
  if (description !== undefined && isGenerator(description.reader)) return { manifest: null };
  const stored = await repository.dataObject(hash);
  if (stored !== undefined) return { manifest: stored.object };
  return `its data ${hash.slice(0, 16)} are not stored here; stemma data push stores registered data`;
}
