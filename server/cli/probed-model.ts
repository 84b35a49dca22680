/** Finds what `stemma probe` is given: a model, an architecture known here by its hash, or a file of one. */
import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isStemmaError } from "../../shared/errors.js";
import { decodeArchitecture, encodeArchitecture, weightSlots } from "../../shared/model/architecture.js";
import { maxModelJsonBytes, readModelJson } from "../../shared/model/model-json.js";
import type { Architecture } from "../../shared/model/model.js";
import { safetensorsHeaderText } from "../../shared/tensor/safetensors-header.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { VersionSummary } from "../storage/repository/answers/version-answers.js";
import type { PlainContext } from "./plain-command.js";
import { writeStreamDurably } from "./stream-file.js";
import { readSmallFile } from "./text-file.js";
import { nameOf } from "./version-text.js";

/** A model to probe; without `version` its weights are drawn. */
export interface ProbedModel {
  readonly title: string;
  readonly architecture: Architecture;
  readonly version?: VersionSummary | undefined;
}

type Server = Pick<PlainContext, "call" | "operations" | "fleet" | "signal">;

/**
 * @throws FILE_MISSING, MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED for a file; MODEL_NOT_FOUND, MODEL_OPAQUE,
 * MODEL_RETIRED for a model
 */
export async function findProbed(argument: string, server: Server): Promise<ProbedModel> {
  const file = await architectureFile(argument);
  if (file !== undefined) return { title: argument, architecture: file };
  if (/^[0-9a-f]{8,64}$/.test(argument)) {
    const found = (await knownArchitectures(server)).find(({ hash }) => hash.startsWith(argument));
    if (found !== undefined)
      return { title: `architecture ${found.hash.slice(0, 12)}`, architecture: await found.read() };
  }
  const version = await server.call("model", { model: argument });
  const architecture = await architectureOf(version.versionId, server);
  return { title: nameOf(version), architecture, version };
}

/** Reads a file; undefined where the argument names none, but a model: no name of a model has a dot or a slash. */
async function architectureFile(argument: string): Promise<Architecture | undefined> {
  if (!/[./]/.test(argument)) return undefined;
  const found = await stat(argument).catch(() => undefined);
  // A tag may have a dot.
  if (found === undefined && argument.includes(":") && !argument.includes("/")) return undefined;
  const bytes = await readSmallFile(argument, maxModelJsonBytes);
  try {
    return decodeArchitecture(bytes);
  } catch (error) {
    if (!isStemmaError(error, "CANONICAL_JSON_INVALID") && !isStemmaError(error, "ARCHITECTURE_INVALID"))
      throw error;
    return readModelJson(bytes).architecture;
  }
}

/** The architecture of a version, by its model.json: the same way for a home and a server. */
async function architectureOf(model: string, { call }: Server): Promise<Architecture> {
  const json = await call("modelJson", { model });
  return readModelJson(Buffer.from(JSON.stringify(json))).architecture;
}

export interface KnownArchitecture {
  readonly hash: Hash;
  readonly versions: readonly VersionSummary[];
  readonly read: () => Promise<Architecture>;
}

/** Every architecture of the fleet's versions, most versions first. Retired versions and opaque ones have none here. */
export async function knownArchitectures(server: Server): Promise<readonly KnownArchitecture[]> {
  const byHash = new Map<Hash, VersionSummary[]>();
  for (const version of await server.call("models")) {
    if (version.record.kind !== "architecture") continue;
    const { architecture } = version.record;
    const versions = byHash.get(architecture);
    if (versions === undefined) byHash.set(architecture, [version]);
    else versions.push(version);
  }
  return [...byHash]
    .map(([hash, versions]) => ({
      hash,
      versions,
      read: () => architectureOf((versions.at(-1) as VersionSummary).versionId, server),
    }))
    .sort((a, b) => b.versions.length - a.versions.length || (a.hash < b.hash ? -1 : 1));
}

/** Writes what the probe's process reads: architecture.json, and the weights where they are the model's own. */
export async function writeProbedModel(
  { architecture, version }: ProbedModel,
  folder: string,
  { operations, fleet, signal }: Server,
): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "architecture.json"), encodeArchitecture(architecture));
  if (version === undefined) return;
  const opened = await operations();
  const stream = await opened.recover({ fleet, model: version.versionId, form: "tfjs" }, { signal });
  const slots = weightSlots(architecture).map(({ path, dtype, shape }) => ({ name: path, dtype, shape }));
  const header = Buffer.from(safetensorsHeaderText(slots, undefined));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  // The bytes of the form tfjs are the tensors one after the other, in canonical order, as safetensors has them.
  const chunks = (async function* () {
    yield Buffer.concat([length, header]);
    yield* stream.chunks;
  })();
  await writeStreamDurably(
    { ...stream, chunks },
    join(folder, "model.safetensors"),
    { overwrite: true },
    () => {},
  );
}
