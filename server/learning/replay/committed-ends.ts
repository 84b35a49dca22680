/** Reads a version's commitment to the states of its training, and ties its ends to the version: tensors and course. */
import { decodeArchitecture, weightSlots } from "../../../shared/model/architecture.js";
import { isStemmaError } from "../../../shared/errors.js";
import { messageOf } from "../../../shared/error-text.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import {
  commitmentName,
  decodeCommitment,
  type StateCommitment,
} from "../../../shared/provenance/state-commitment.js";
import { tensorOfSource } from "../../../shared/tensor/tensor.js";
import { ArraysHash, trainedWeights } from "../../../shared/train/state-leaf.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { readLeaves } from "../../storage/repository/state/references.js";
import { spotCheckIncomplete } from "./replay-errors.js";
import { membersOf } from "./story.js";
import { counted } from "../../../shared/printable.js";

/** Arrays of the size of the weights in a state, at most: weights, best epoch's, and three of an optimizer. */
const maxStateCopies = 5;
/** Bytes of a state beside its arrays: position, and for each array its name and shape. */
const headerBytes = 1024 * 1024;
const bytesPerArray = 2048;

type Stored = Pick<FleetRepository, "objects">;

/**
 * @returns the commitment, or why the device's own words refute it
 * @throws REPLAY_INCOMPLETE where the version has none, or no tensors to tie it to
 */
export async function commitmentOf(
  { objects }: Stored,
  { name, version, record, dropped }: Pick<VersionSummary, "name" | "version" | "record" | "dropped">,
): Promise<StateCommitment | { readonly refuted: string }> {
  const what = `${name}:${version}`;
  const id = record.objects.attachments?.find((each) => each.name === commitmentName)?.hash;
  if (id === undefined)
    throw spotCheckIncomplete(
      what,
      "its device did not commit to the states of the training, so parts of it cannot be checked. Set " +
        "`spotChecks` for the line in the device's agent.json: models that it trains then can be. " +
        "`stemma replay run` repeats all of it.",
    );
  if (dropped !== undefined)
    throw spotCheckIncomplete(
      what,
      "a replay has proved it, and its tensors were dropped: there is nothing to check.",
    );
  try {
    return decodeCommitment(await objects.read("attachment", id));
  } catch (error) {
    if (isStemmaError(error, "PROVENANCE_INVALID")) return { refuted: messageOf(error) };
    throw error;
  }
}

/** A contradiction between the ends of the committed states and the version; undefined where there is none. */
export async function endProblem(
  { objects }: Stored,
  { record }: Pick<VersionSummary, "record">,
  { commitment, opened }: { readonly commitment: StateCommitment; readonly opened: OpenedProvenance },
): Promise<string | undefined> {
  const { engine } = opened.provenance;
  if (engine !== commitment.engine)
    return "its commitment is of another engine than the one that its record says trained it";
  const iterations = membersOf(valueOf(opened, "course"))["iterations"];
  if (iterations !== undefined && Number(iterations) !== commitment.steps)
    return `its commitment is of ${counted(commitment.steps, "step")}, and its record of ${Number(iterations)}`;
  const weights = await weightsOf({ objects }, record);
  return weights === trainedWeights(commitment.last)
    ? undefined
    : "its last state does not have the weights of the model: the commitment is of another training";
}

/** The hash of the version's weights as a state has them; undefined for a model without an architecture. */
async function weightsOf({ objects }: Stored, record: SaveRecord): Promise<string | undefined> {
  const { architecture } = record.objects;
  if (architecture === undefined) return undefined;
  const slots = weightSlots(decodeArchitecture(await objects.read("architecture", architecture)));
  const leaves = await readLeaves(objects, record);
  if (leaves.length !== slots.length) return undefined;
  const hash = new ArraysHash();
  for (const [at, { path, shape }] of slots.entries()) {
    const tensor = leaves[at]?.tensor;
    if (tensor === undefined) return undefined;
    const { bytes } = await tensorOfSource(objects.openTensor(tensor));
    if (bytes.length % 4 !== 0) return undefined;
    hash.add({ name: path, shape, read: () => new Float32Array(bytes.slice().buffer) });
  }
  return hash.digest();
}

/** Bytes that a state of this model's training has at most. */
export async function maxStateBytes({ objects }: Stored, record: SaveRecord): Promise<number> {
  const leaves = await readLeaves(objects, record);
  let bytes = headerBytes;
  for (const { tensor } of leaves)
    bytes += maxStateCopies * ((objects.stat(tensor)?.byteLength ?? 0) + bytesPerArray);
  return bytes;
}
