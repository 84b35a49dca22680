/**
 * A model card (Mitchell et al., 2019) with its nine sections, from what is recorded of a version and nothing else
 * (CH10). Pure.
 */
import { formatTime } from "../../../shared/cli/output.js";
import { coursesOf, courseText } from "../repository/metric-course.js";
import { describeDataDropped, describeSpotCheck } from "../verdict-text.js";
import { nameOf } from "../version-text.js";
import { evaluationDataStatements, trainingDataStatements } from "./card-data.js";
import { modelDetails } from "./card-details.js";
import { evaluationStatements } from "./card-evaluations.js";
import type { DocumentSource } from "./document-source.js";
import {
  isRedacted,
  knownProvenance,
  KnownStory,
  membersOf,
  statement,
  textOf,
  type Statement,
} from "./statement.js";
import { statedSection } from "./stated-notes.js";

export interface CardSection {
  readonly title: string;
  readonly statements: readonly Statement[];
}

export interface ModelCard {
  readonly title: string;
  /** Nine, in the order of the paper. */
  readonly sections: readonly CardSection[];
}

export function modelCard(given: DocumentSource): ModelCard {
  const { provenance } = given.described;
  const described = { ...given.described, provenance: knownProvenance(provenance) };
  const source = { ...given, described };
  const otherForm = described.provenance === undefined ? textOf(provenance) : undefined;
  const story = storyOf(described);
  return {
    title: nameOf(described),
    sections: [
      {
        title: "Model details",
        statements: [...modelDetails(source, story), ...shown("provenance of another form", otherForm)],
      },
      { title: "Intended use", statements: statedSection(described, "intended-use") },
      { title: "Factors", statements: statedSection(described, "factors") },
      { title: "Metrics", statements: metrics(source, story) },
      { title: "Evaluation data", statements: evaluationDataStatements(source, story) },
      { title: "Training data", statements: trainingDataStatements(described, story) },
      { title: "Quantitative analyses", statements: analyses(source, story) },
      { title: "Ethical considerations", statements: statedSection(described, "ethical-considerations") },
      { title: "Caveats and recommendations", statements: caveats(described) },
    ],
  };
}

export function storyOf({ provenance, proof }: DocumentSource["described"]): KnownStory {
  return new KnownStory(proof, typeof membersOf(provenance)["engine"] === "string");
}

function metrics({ described, evaluations }: DocumentSource, story: KnownStory): readonly Statement[] {
  const { metadata = {} } = described;
  const lower = metadata["metric.lowerIsBetter"];
  const direction = lower === undefined ? undefined : lower === true ? "lower" : "higher";
  const names = [...new Set(evaluations.map(({ metric }) => metric.name))];
  return [
    story.stated("metric of the training", metadata["metric.name"], ["metadata", "metric.name"]),
    story.stated("unit", metadata["metric.unit"], ["metadata", "metric.unit"]),
    story.stated("better is", direction, ["metadata", "metric.lowerIsBetter"]),
    statement("metrics of evaluations", names.length === 0 ? undefined : names.join(", ")),
  ];
}

function analyses(source: DocumentSource, story: KnownStory): readonly Statement[] {
  const { metadata = {}, measurements } = source.described;
  const courses = coursesOf(Array.isArray(measurements) ? measurements : []);
  return [
    story.stated("metric before the training", metadata["metric.before"], ["metadata", "metric.before"]),
    story.stated("metric after the training", metadata["metric.after"], ["metadata", "metric.after"]),
    ...(courses.length === 0 ? [statement("course of the training", undefined)] : []),
    ...courses.map((course) =>
      story.stated(
        "course of the training",
        courseText(course),
        ["record", "objects", "measurements"],
        course.name,
      ),
    ),
    ...evaluationStatements(source),
  ];
}

/** Caveats that somebody wrote, then those that follow from the record. */
function caveats(described: DocumentSource["described"]): readonly Statement[] {
  const { record, dataDropped, dropped, provenance, replayed, spotCheck } = described;
  const members = membersOf(provenance);
  const redacted = Object.keys(members).filter((name) => isRedacted(members[name]));
  const found: readonly (readonly [string, string | undefined])[] = [
    ["reduced", record.scheme && `by ${record.scheme}: its numbers are not those that were trained`],
    ["replay", replayed?.verdict === "refuted" ? `refuted: ${replayed.because}` : undefined],
    ["spot check", spotCheck?.outcome === "refuted" ? describeSpotCheck(spotCheck) : undefined],
    ["tensors", dropped && `dropped ${formatTime(dropped.atMs)}: a recovery trains again`],
    ["data of the training", dataDropped && describeDataDropped(dataDropped)],
    ["redacted", redacted.length === 0 ? undefined : redacted.join(", ")],
  ];
  return [...statedSection(described, "caveats"), ...found.flatMap(([name, value]) => shown(name, value))];
}

/** A statement that is left out where there is nothing to state. */
function shown(name: string, value: string | undefined): readonly Statement[] {
  return value === undefined ? [] : [statement(name, value)];
}
