/** Computes an average once more from its bases, by the rule that its record states, and compares it bit for bit. */
import { averageArithmeticId } from "../../../shared/average/average-record.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { TensorSource } from "../../../shared/tensor/tensor.js";
import { findBase } from "../../services/data/find-base.js";
import { readKeptStory } from "../../services/data/kept-story.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { openBases, sourcesOf, type AverageBases } from "../average/average-bases.js";
import type { AverageStory } from "./average-story.js";
import { compareWithStored, describeTensors, type Judgement } from "./judge-replay.js";
import { storedParts } from "./recorded-proof.js";
import type { Unreplayable } from "./story.js";
import { proofOfMembers } from "./told-story.js";
import type { Replay } from "./train-again.js";

interface Told {
  readonly story: AverageStory;
  readonly opened: OpenedProvenance;
}

/** Codes with which bases show that no average can have been made of them by the rule. */
const impossible = ["ARCHITECTURE_MISMATCH", "AVERAGE_REFUSED", "MODEL_REDUCED", "NOT_A_NUMBER"] as const;

/** @throws what reading damaged or dropped bases throws; TRAINING_STOPPED, or as the signal says, when aborted */
export async function replayAverage(replay: Replay, { story, opened }: Told): Promise<Judgement> {
  const { context, repository, summary, signal } = replay;
  const { clock } = context.home.ports;
  const found = await findBases(replay, story);
  if ("reason" in found) return { verdict: "unreplayable", ...found };
  const startedMs = clock.monotonic();
  try {
    const bases = await openBases(repository, found.bases, signal);
    const isOtherForm = bases.bases.some(
      ({ record: { architecture } }) => architecture !== summary.record.architecture,
    );
    const difference = await compareWithStored(
      repository.objects,
      summary.record,
      tensorsOf(bases, story, signal),
    );
    const isEqual = difference === undefined && !isOtherForm;
    const parts = { ...(await storedParts(repository, summary.record)), opened };
    const again = `the average of its ${story.bases.length} bases was computed again, and ${describeTensors(difference)}`;
    return {
      verdict: isEqual ? "proved" : "refuted",
      grade: isEqual ? "bit-exact" : "different",
      text: isEqual ? `${again}.` : `${again}. Every machine computes the same, so the record is not true.`,
      ...(difference === undefined ? {} : { difference }),
      ...(isOtherForm ? { members: ["record.architecture"] } : {}),
      ...(isEqual
        ? { proof: proofOfMembers(parts, { description: "none" }), description: "none" as const }
        : {}),
      engineId: averageArithmeticId,
      workMs: Math.round(clock.monotonic() - startedMs),
    };
  } catch (error) {
    if (!impossible.some((code) => isStemmaError(error, code))) throw error;
    return {
      verdict: "refuted",
      grade: "different",
      text: `its bases give no average by the rule that it states: ${messageOf(error)}`,
      engineId: averageArithmeticId,
    };
  }
}

/** Sources by path, which are computed one after the other, as they are read. */
function tensorsOf(
  bases: AverageBases,
  { rule }: AverageStory,
  signal: AbortSignal | undefined,
): ReadonlyMap<string, TensorSource> {
  const sources = sourcesOf(bases, rule, signal);
  return new Map(bases.tensors.map(({ path }, i) => [path, sources[i] as TensorSource]));
}

/** The bases in the order of the record, which is that of the sums: those of another home have other ids here. */
async function findBases(
  { repository, summary, baseRecords }: Replay,
  { bases }: AverageStory,
): Promise<{ readonly bases: readonly VersionSummary[] } | Unreplayable> {
  const kept = baseRecords ?? (await readKeptStory(repository, summary.record))?.bases;
  const found: VersionSummary[] = [];
  for (const versionId of bases) {
    const base = await findBase(repository, versionId, kept?.get(versionId));
    if (base === undefined)
      return {
        reason: "base-missing",
        text: `its base ${versionId.slice(0, 12)} is not here, and it is the average of ${bases.length} models.`,
      };
    found.push(base);
  }
  return { bases: found };
}
