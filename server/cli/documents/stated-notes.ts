/** The statements of people about a version, in its metadata and attached files, by what they are about. Pure. */
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { statement, type Statement } from "./statement.js";

/** The names of metadata, and of attached files without their endings, by the statement that they are. */
const namesOf = {
  license: ["license", "licence", "copying"],
  "intended-use": ["intended-use"],
  factors: ["factors"],
  "ethical-considerations": ["ethical-considerations"],
  caveats: ["caveats"],
} as const satisfies Readonly<Record<string, readonly string[]>>;
export type StatedTopic = keyof typeof namesOf;

const topicNames: ReadonlySet<string> = new Set(Object.values(namesOf).flat());

type Stated = Pick<ModelDescription, "metadata" | "record">;

/** The text that somebody gave; undefined where nobody did. */
export function statedText({ metadata = {} }: Stated, topic: StatedTopic): string | undefined {
  const values = namesOf[topic].flatMap((name) => (Object.hasOwn(metadata, name) ? [metadata[name]] : []));
  return values.length === 0 ? undefined : String(values[0]);
}

/** One statement or more: the text, and the attached files of that name. */
export function statedSection(described: Stated, topic: StatedTopic): readonly Statement[] {
  const name = topic.replace("-", " ");
  const files = (described.record.objects.attachments ?? []).filter((file) =>
    (namesOf[topic] as readonly string[]).includes(stemOf(file.name)),
  );
  const text = statedText(described, topic);
  return [
    ...(text === undefined && files.length > 0 ? [] : [statement(name, text, "stated")]),
    ...files.map((file) => statement(`${name}, in an attached file`, file.hash, "stated", { of: file.name })),
  ];
}

/** "LICENSE.txt" → "license". */
function stemOf(file: string): string {
  return file.replace(/\.[^.]*$/, "").toLowerCase();
}

const metricMembers: ReadonlySet<string> = new Set(
  ["name", "unit", "lowerIsBetter", "before", "after"].map((member) => `metric.${member}`),
);

/** Metadata that no other statement shows. */
export function otherMetadataOf({ metadata = {} }: Stated): readonly (readonly [string, unknown])[] {
  return Object.entries(metadata).filter(([name]) => !topicNames.has(name) && !metricMembers.has(name));
}

/** Attached files that no other statement shows. */
export function otherFilesOf({
  record,
}: Stated): readonly { readonly name: string; readonly hash: string }[] {
  return (record.objects.attachments ?? []).filter(({ name }) => !topicNames.has(stemOf(name)));
}
