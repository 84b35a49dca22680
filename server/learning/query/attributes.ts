/** The attributes of a version that a query may name (docs/dql.md compares with this table). Pure. */
import type { Candidate, Facet } from "./query-source.js";

export type ValueType = "text" | "number" | "time" | "truth value";
export type Value = string | number | boolean;

interface Attribute {
  readonly type: ValueType;
  readonly facet?: Facet;
  /** Returns undefined where it is not known. Of a list, a condition holds where it holds for one member. */
  readonly value: (candidate: Candidate) => Value | readonly string[] | undefined;
}

const textOrNone = (text: string | undefined): string | undefined => (text === "" ? undefined : text);
const stated = ({ metadata }: Candidate, name: string): string | undefined =>
  metadata?.[name] === undefined ? undefined : String(metadata[name]);

/** A hyper-parameter is named m.config.NAME: it may have any type. */
export const configAttribute = "config";

export const attributes: Readonly<Record<string, Attribute>> = {
  id: { type: "text", value: ({ row }) => row.versionId },
  name: { type: "text", value: ({ row }) => row.name },
  number: { type: "number", value: ({ row }) => row.version },
  creation_time: { type: "time", value: ({ row }) => row.record.savedAtMs },
  recorded_time: { type: "time", value: ({ row }) => row.recordedAtMs },
  author: {
    type: "text",
    facet: "metadata",
    value: (candidate) => stated(candidate, "commit.author") ?? candidate.row.by,
  },
  message: { type: "text", facet: "metadata", value: (candidate) => stated(candidate, "commit.message") },
  tag: { type: "text", value: ({ row }) => row.tags },
  file: { type: "text", value: ({ row }) => row.files },
  device: { type: "text", value: ({ row }) => textOrNone(row.record.device) },
  line: { type: "text", value: ({ row }) => textOrNone(row.record.line) },
  state: { type: "text", value: ({ row }) => row.state },
  held: { type: "truth value", value: ({ row }) => row.isHeld },
  approach: { type: "text", value: ({ row }) => row.record.approach },
  scheme: { type: "text", value: ({ row }) => row.record.scheme },
  recipe: { type: "text", facet: "recipe", value: ({ recipe }) => recipe },
  architecture: {
    type: "text",
    value: ({ row: { record } }) => (record.kind === "opaque" ? undefined : record.architecture),
  },
  layers: { type: "number", facet: "network", value: ({ network }) => network?.layers.length },
  parameters: { type: "number", facet: "network", value: ({ network }) => network?.parameters },
  checkpoints: { type: "number", value: ({ row }) => row.checkpoints },
  size: { type: "number", value: ({ row }) => row.tensorBytes },
  own_size: { type: "number", value: ({ row }) => row.ownBytes },
  stored_size: { type: "number", value: ({ row }) => row.storedBytes },
};
