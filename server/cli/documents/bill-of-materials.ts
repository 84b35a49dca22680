/**
 * A CycloneDX 1.6 bill of materials of a version (ML-BOM): the model with its card, its bases, data and the software
 * that trained it. It is made of what does not change after the version was recorded, so it has the same bytes each
 * time until something is redacted; evaluations and verdicts are in the model card. Pure.
 */
import { defined } from "../../../shared/defined.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { isHash } from "../../../shared/tensor/hash.js";
import { softwareComponents } from "./bill-software.js";
import { hashesOf, propertiesOf, type BillComponent, type Properties } from "./bill-component.js";
import { shownText } from "./card-text.js";
import { isRedacted, knownProvenance, membersOf, textOf, type Members } from "./statement.js";
import { statedText } from "./stated-notes.js";
import { uuidOf } from "./uuid.js";

export interface BillOfMaterials {
  readonly $schema: string;
  readonly bomFormat: "CycloneDX";
  readonly specVersion: "1.6";
  readonly serialNumber: string;
  readonly version: 1;
  readonly metadata: { readonly timestamp?: string; readonly component: BillComponent };
  readonly components: readonly BillComponent[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[];
}

export function billOfMaterials(given: ModelDescription): BillOfMaterials {
  const described = { ...given, provenance: knownProvenance(given.provenance) };
  const data = dataComponents(described.provenance);
  const components = [...basesOf(described), ...data, ...softwareComponents(described)];
  const component = modelComponent(described, data);
  const refs = components.map((each) => each["bom-ref"]);
  const content = {
    metadata: { ...timestampOf(described.record.savedAtMs), component },
    components,
    dependencies: [{ ref: component["bom-ref"], dependsOn: refs }, ...refs.map((ref) => ({ ref }))],
  };
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: serialNumberOf(content),
    version: 1,
    ...content,
  };
}

/** The text of a bill, as it is printed and written. */
export function billText(bill: BillOfMaterials): string {
  return JSON.stringify(bill, null, 2);
}

/** Another content, such as after a redaction, has another number. */
function serialNumberOf(content: object): string {
  return `urn:uuid:${uuidOf(JSON.stringify(content))}`;
}

/** The time by the saver's clock; none where that is not in the years that a date of four digits can have. */
function timestampOf(savedAtMs: number): { readonly timestamp?: string } {
  const maxMs = Date.UTC(9999, 11, 31);
  return savedAtMs > maxMs ? {} : { timestamp: new Date(savedAtMs).toISOString() };
}

function modelComponent(described: ModelDescription, data: readonly BillComponent[]): BillComponent {
  const { versionId, name, version, record } = described;
  const licence = statedText(described, "license");
  const properties: Properties = {
    "stemma:version-id": versionId,
    "stemma:content-id": record.contentId,
    "stemma:hash": "SHA-256 root of the Merkle tree over the tensors, not the hash of a file",
    "stemma:kind": record.kind,
    "stemma:approach": record.approach,
    "stemma:scheme": record.scheme,
    "stemma:fleet": record.fleet,
    "stemma:device": record.device || undefined,
    "stemma:line": record.line || undefined,
  };
  return {
    type: "machine-learning-model",
    "bom-ref": `model:${versionId}`,
    name: shownText(name),
    version: String(version),
    ...hashesOf(record.root),
    ...(licence === undefined
      ? {}
      : { licenses: [{ license: { name: shownText(licence), acknowledgement: "declared" } }] }),
    modelCard: modelCardOf(described, data),
    properties: propertiesOf(properties),
  };
}

function modelCardOf(described: ModelDescription, data: readonly BillComponent[]): object {
  const { record, metadata = {} } = described;
  const metric = metadata["metric.name"];
  const values = [
    ["metric.before", "before the training"],
    ["metric.after", "after the training"],
  ] as const;
  const performanceMetrics = values.flatMap(([member, when]) =>
    metric === undefined || metadata[member] === undefined
      ? []
      : [{ type: shownText(String(metric)), value: shownText(String(metadata[member])), slice: when }],
  );
  const list = (text: string | undefined): readonly string[] | undefined =>
    text === undefined ? undefined : [shownText(text)];
  const ethical = list(statedText(described, "ethical-considerations"));
  const considerations = defined({
    useCases: list(statedText(described, "intended-use")),
    technicalLimitations: list(statedText(described, "caveats")),
    ethicalConsiderations: ethical?.map((name) => ({ name })),
  });
  return {
    modelParameters: {
      ...(record.kind === "opaque" ? {} : { modelArchitecture: record.architecture }),
      ...(data.length === 0 ? {} : { datasets: data.map((each) => ({ ref: each["bom-ref"] })) }),
    },
    ...(performanceMetrics.length === 0 ? {} : { quantitativeAnalysis: { performanceMetrics } }),
    ...(Object.keys(considerations).length === 0 ? {} : { considerations }),
    properties: propertiesOf(trainingProperties(described.provenance)),
  };
}

/** The training as properties, each parameter with its origin. */
function trainingProperties(provenance: unknown): Properties {
  const { recipe, exactness, random, course, parameters, engine, ...others } = membersOf(provenance);
  const shown: Members = { engine, exactness, recipe, random, course };
  const redacted = Object.entries({ ...shown, ...others, parameters }).flatMap(([name, value]) =>
    isRedacted(value) ? [name] : [],
  );
  const open = Object.entries(shown).filter(([name]) => !redacted.includes(name));
  const set = redacted.includes("parameters") ? [] : Object.entries(membersOf(parameters));
  return {
    ...Object.fromEntries(open.map(([name, value]) => [`stemma:${name}`, textOf(value)])),
    ...Object.fromEntries(
      set.map(([name, parameter]) => {
        const { value, from } = membersOf(parameter);
        return [`stemma:parameter:${name}`, `${textOf(value) ?? ""} (${textOf(from) ?? "unknown"})`];
      }),
    ),
    "stemma:redacted": redacted.length === 0 ? undefined : redacted.join(", "),
  };
}

function basesOf({ bases, versionId }: ModelDescription): readonly BillComponent[] {
  const known = bases.filter(
    (base, at) =>
      base.versionId !== versionId && bases.findIndex((each) => each.versionId === base.versionId) === at,
  );
  return known.map((base) => ({
    type: "machine-learning-model",
    "bom-ref": `model:${base.versionId}`,
    name: shownText(base.name),
    version: String(base.version),
    description: "trained from this version",
    properties: propertiesOf({ "stemma:version-id": base.versionId }),
  }));
}

function dataComponents(provenance: unknown): readonly BillComponent[] {
  const { data, dataHashes } = membersOf(provenance);
  const hashes = (Array.isArray(dataHashes) ? dataHashes : []).filter((hash) => isHash(hash));
  const sets: readonly unknown[] = Array.isArray(data) ? data : [];
  return [...new Set(hashes)].map((hash) => {
    const set = membersOf(sets[hashes.indexOf(hash)]);
    const name = textOf(set["name"]) ?? hash;
    const { samples, split, reader, parameters, format } = set;
    return {
      type: "data",
      "bom-ref": `data:${hash}`,
      name: shownText(name),
      ...hashesOf(hash),
      data: [{ type: "dataset", name: shownText(name) }],
      properties: propertiesOf({
        "stemma:hash": "SHA-256 of the samples in canonical form, not the hash of a file",
        "stemma:description": isRedacted(data) ? "redacted" : undefined,
        ...Object.fromEntries(
          Object.entries({ reader, parameters, format, split, samples }).map(([member, value]) => [
            `stemma:${member}`,
            textOf(value),
          ]),
        ),
      }),
    };
  });
}
