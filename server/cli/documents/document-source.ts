/** Reads what documents about a version are made of, from any server. */
import { StemmaError } from "../../../shared/errors.js";
import type { ListedEvaluation } from "../../interface/api/models/evaluation-schemas.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { PlainContext } from "../plain-command.js";
import { nameOf } from "../version-text.js";

/** A version, its stored evaluations (the latest first), and the data that are registered now. */
export interface DocumentSource {
  readonly described: ModelDescription;
  readonly evaluations: readonly ListedEvaluation[];
  readonly datasets: readonly Pick<CallOutput<"datasets">[number], "name" | "hash">[];
}

/** The latest evaluations that a document shows: as many as are kept. */
const maxEvaluations = 100;

/** @throws MODEL_NOT_FOUND, MODEL_RETIRED, OBJECT_MISSING */
export async function describedForDocument(
  call: PlainContext["call"],
  model: string,
): Promise<ModelDescription> {
  const described = await call("model", { model });
  requireContent(described);
  return described;
}

/** @throws MODEL_NOT_FOUND, MODEL_RETIRED, OBJECT_MISSING */
export async function readDocumentSource(call: PlainContext["call"], model: string): Promise<DocumentSource> {
  const described = await describedForDocument(call, model);
  const { versionId, evaluations = 0 } = described;
  const listed =
    evaluations === 0 ? [] : await call("evaluations", { model: versionId, limit: maxEvaluations });
  return {
    described,
    evaluations: listed.filter((each) => each.versionId === versionId),
    datasets: await call("datasets"),
  };
}

/** Refuses a version of which the server shows less than is recorded: "not recorded" would not be true of it. */
function requireContent(described: ModelDescription): void {
  const { retired, leaves, environment } = described;
  if (retired !== undefined)
    throw new StemmaError(
      "MODEL_RETIRED",
      `${nameOf(described)} is retired: its name, parents and times are kept, and nothing else of it. ` +
        "Name another version.",
    );
  if (leaves.length > 0 || Object.keys(environment).length > 0) return;
  throw new StemmaError(
    "OBJECT_MISSING",
    `Objects of ${nameOf(described)} are not in the store, so a document would leave out what they record. ` +
      "See what is damaged: stemma storage check.",
  );
}
