/**
 * Compares the words of the classes that a model was trained on with those of the data that it is measured on: a class
 * is an index, so equal data with words in another order measure another thing.
 */
import { plainOf } from "../../../shared/provenance/plain-value.js";
import { valueOf } from "../../../shared/provenance/openings.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { classesInOtherOrder } from "./evaluation-errors.js";

export interface ClassWords {
  readonly model: readonly string[];
  readonly data: readonly string[];
}

/** The words of the classes in a description of data, in the order of the classes; undefined where it names none. */
function classWordsOf(description: unknown): readonly string[] | undefined {
  const { columns } = (description ?? {}) as { readonly columns?: unknown };
  if (!Array.isArray(columns)) return undefined;
  const words: unknown = (columns as readonly { readonly role?: unknown; readonly words?: unknown }[]).find(
    ({ role, words: own }) => role === "target" && own !== undefined,
  )?.words;
  return Array.isArray(words) && words.every((word) => typeof word === "string") ? words : undefined;
}

/**
 * Returns the words of both where they differ; undefined where they are equal, or one of the two names none.
 * @param describe gives the description of the data; called only where the model names words
 * @throws ARCHITECTURE_MISMATCH where they are the same words in another order
 */
export async function differingWords(
  repository: FleetRepository,
  version: Pick<VersionSummary, "name" | "version" | "record">,
  describe: () => Promise<unknown>,
): Promise<ClassWords | undefined> {
  const model = classWordsOf(await trainedOn(repository, version.record));
  const data = model && classWordsOf(await describe());
  if (data === undefined || model === undefined) return undefined;
  const isSame = model.length === data.length && model.every((word, index) => word === data[index]);
  if (isSame) return undefined;
  if (model.length === data.length && model.every((word) => data.includes(word)))
    throw classesInOtherOrder(version, model, data);
  return { model, data };
}

/** The description of a version's data in its record; of a reduced model, that of the exact one. */
async function trainedOn(repository: FleetRepository, record: VersionSummary["record"]): Promise<unknown> {
  const exact = record.scheme === undefined ? record : repository.get(record.bases[0] ?? record.root)?.record;
  const opened = exact && (await readOpenedProvenance(repository, exact.objects));
  const data = opened && plainOf(valueOf(opened, "data"));
  return Array.isArray(data) ? data[0] : undefined;
}
