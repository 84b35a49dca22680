// Writes what an executable is made of, as a CycloneDX bill of materials: Node, the libraries in its bundles and those in
// the training engine, with versions, licences and hashes. It states no time of its own, so it is the same twice.
import { Enums, Models, Serialize, SPDX, Spec } from "@cyclonedx/cyclonedx-library";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { libraryFolders } from "../launcher/package.mjs";
import { nodeVersion } from "./base-node.mjs";
import { sha256Of } from "./checksums.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

function licenceOf(text) {
  if (SPDX.isSupportedSpdxId(text)) return new Models.SpdxLicense(text);
  return /\b(AND|OR|WITH)\b/.test(text) ? new Models.LicenseExpression(text) : new Models.NamedLicense(text);
}

function componentOf(type, { name, version, licence, purl, hashes = [] }) {
  const [, group, own] = /^(?:(@[^/]+)\/)?(.+)$/.exec(name);
  return new Models.Component(type, own, {
    bomRef: purl ?? `${name}@${version}`,
    group,
    version,
    purl,
    hashes: new Models.HashDictionary(hashes),
    licenses: new Models.LicenseRepository(licence === undefined ? [] : [licenceOf(licence)]),
  });
}

/** Hash of a package as the lock file pins it: of the archive that a registry gives. */
const hashesOf = (integrity = "") =>
  integrity
    .split(" ")
    .filter((each) => each.startsWith("sha512-"))
    .map((each) => [Enums.HashAlgorithm["SHA-512"], Buffer.from(each.slice(7), "base64").toString("hex")]);

async function libraryOf(folder, locked) {
  const { name, version, license } = JSON.parse(await readFile(join(root, folder, "package.json"), "utf8"));
  return componentOf(Enums.ComponentType.Library, {
    name,
    version,
    licence: typeof license === "string" ? license : license?.type,
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    hashes: hashesOf(locked[folder]?.integrity),
  });
}

/** @param sources source files of the bundles, as esbuild names them */
export async function writeParts(partsPath, { manifest, command, sources, path }) {
  const { packages: locked } = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  const [{ id, inputs }, runner, probe] = await Promise.all(
    ["engine", "native", "probe"].map(async (name) =>
      JSON.parse(await readFile(join(root, `dist/${name}/built-from.json`), "utf8")),
    ),
  );
  const whole = componentOf(Enums.ComponentType.Application, {
    name: command,
    version: manifest.version,
    licence: manifest.license,
    hashes: [[Enums.HashAlgorithm["SHA-256"], await sha256Of(path)]],
  });
  const properties = { commit: manifest.commit, target: manifest.target, engine: id };
  for (const [name, value] of Object.entries(properties))
    if (value !== undefined) whole.properties.add(new Models.Property(`stemma:${name}`, value));
  const node = componentOf(Enums.ComponentType.Platform, {
    name: "node",
    version: nodeVersion,
    licence: "MIT",
    purl: `pkg:generic/node@${nodeVersion}`,
  });
  const folders = libraryFolders([...sources, ...inputs, ...runner.inputs, ...probe.inputs]);
  const libraries = await Promise.all(folders.map((folder) => libraryOf(folder, locked)));
  const bom = new Models.Bom({
    metadata: new Models.Metadata({ component: whole, timestamp: new Date(manifest.date) }),
  });
  for (const each of [node, ...libraries]) {
    bom.components.add(each);
    whole.dependencies.add(each.bomRef);
  }
  const serializer = new Serialize.JsonSerializer(new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6));
  const text = serializer.serialize(bom, { sortLists: true, space: 2 });
  await writeFile(partsPath, `${text}\n`);
  return partsPath;
}
