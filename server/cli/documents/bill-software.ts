/** The software that a version was made with, as components: its engine, and what its environment names. Pure. */
import { isHash } from "../../../shared/tensor/hash.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { hashesOf, propertiesOf, type BillComponent } from "./bill-component.js";
import { shownText } from "./card-text.js";
import { membersOf } from "./statement.js";

/** Fields of an environment whose value is the version of what they name, and which kind of component that is. */
const kinds: Readonly<Record<string, string>> = {
  stemma: "application",
  node: "platform",
  v8: "platform",
  driver: "device-driver",
  cuda: "library",
  cudnn: "library",
};
const libraryPrefix = "library.";

export function softwareComponents({
  provenance,
  environment,
}: Pick<ModelDescription, "provenance" | "environment">): readonly BillComponent[] {
  const { engine = environment["engine"] } = membersOf(provenance);
  const { os, kernel } = environment;
  const fields = Object.entries(environment).sort(([a], [b]) => (a < b ? -1 : 1));
  const software = fields.flatMap(([field, version]) => {
    const isLibrary = field.startsWith(libraryPrefix);
    const type = isLibrary ? "library" : Object.hasOwn(kinds, field) ? kinds[field] : undefined;
    return type === undefined
      ? []
      : [{ type, name: isLibrary ? field.slice(libraryPrefix.length) : field, version }];
  });
  const system = os === undefined ? [] : [{ type: "operating-system", name: os, version: kernel }];
  return [
    ...(isHash(engine) ? [engineComponent(engine)] : []),
    ...[...system, ...software].map(({ type, name, version }, at) => ({
      type,
      "bom-ref": `software:${at}`,
      name: shownText(name),
      ...(version === undefined ? {} : { version: shownText(version) }),
    })),
  ];
}

function engineComponent(engine: string): BillComponent {
  return {
    type: "application",
    "bom-ref": `engine:${engine}`,
    name: "training engine",
    version: engine.slice(0, 12),
    ...hashesOf(engine),
    properties: propertiesOf({
      "stemma:hash": "engine id: SHA-256 of the engine's files, as its build defines it",
    }),
  };
}
