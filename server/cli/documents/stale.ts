/** The reasons why a verdict or an evaluation of a version may not be so any more. Pure. */
import type { ListedEvaluation } from "../../interface/api/models/evaluation-schemas.js";
import type { DocumentSource } from "./document-source.js";
import { membersOf, textOf } from "./statement.js";

type Staleness = string | undefined;
/** Data by the name under which they were registered, and the hash of their samples then. */
interface UsedData {
  readonly name: string | undefined;
  readonly content: string | undefined;
}

/** The staleness of the version's latest verdict. */
export function staleVerdict({ described, datasets }: Omit<DocumentSource, "evaluations">): Staleness {
  const { replayed, dataDropped } = described;
  if (replayed === undefined) return undefined;
  return joined([
    otherEngine(described.provenance, replayed.engineId),
    ...usedData(described.provenance).map((each) => otherData(each, datasets)),
    dataDropped !== undefined && dataDropped.atMs >= replayed.atMs
      ? "the stored data were dropped since"
      : undefined,
  ]);
}

/** The staleness of one of its evaluations. */
export function staleEvaluation(
  { described, datasets }: Omit<DocumentSource, "evaluations">,
  { engine, data }: Pick<ListedEvaluation, "engine" | "data">,
): Staleness {
  return joined([
    otherEngine(described.provenance, engine),
    otherData({ name: data.name, content: data.content }, datasets),
    ...usedData(described.provenance)
      .filter(({ name }) => name !== data.name)
      .map((each) => otherData(each, datasets)),
  ]);
}

function joined(reasons: readonly Staleness[]): Staleness {
  const found = [...new Set(reasons)].filter((reason) => reason !== undefined);
  return found.length === 0 ? undefined : found.join("; ");
}

/** A version that no engine trained has none to compare with. */
function otherEngine(provenance: unknown, engine: string): Staleness {
  const trainedBy = membersOf(provenance)["engine"];
  return typeof trainedBy !== "string" || trainedBy === engine
    ? undefined
    : `by the engine ${engine.slice(0, 12)}, and ${trainedBy.slice(0, 12)} trained it`;
}

/** Data that are not registered any more have not changed, as far as anybody can see. */
function otherData({ name, content }: UsedData, datasets: DocumentSource["datasets"]): Staleness {
  const registered = datasets.find((each) => each.name === name);
  const isOther = content !== undefined && registered?.hash != null && registered.hash !== content;
  return isOther ? `${name ?? ""} is registered with other samples now` : undefined;
}

/** The data of the version's training, by the names under which they were registered. */
function usedData(provenance: unknown): readonly UsedData[] {
  const { data, dataHashes } = membersOf(provenance);
  if (!Array.isArray(data) || !Array.isArray(dataHashes)) return [];
  return data.map((set, at) => ({
    name: textOf(membersOf(set)["name"]),
    content: textOf(dataHashes[at]),
  }));
}
