/** Proves that everything a version consists of is stored, by reading it back from the disk. */
import { defined } from "../../../../shared/defined.js";
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { Environment } from "../../../../shared/model/environment.js";
import { objectsOf, treesOf } from "../../../../shared/model/record-objects.js";
import { readData, readManifest } from "../../../../shared/data/stored-data.js";
import { mayBeAbsent } from "../../../../shared/objects/references.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import { describePart, type RecoveredPart } from "../../../../shared/recover/recovered-part.js";
import type { RecoveredModel } from "../../../../shared/recover/recovery.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "../context.js";
import type { VerifiedVersion, VersionSummary } from "../answers/version-answers.js";
import { requireKept } from "./diff-versions.js";

/** The largest number of damaged parts that an error names. */
const maxNamedParts = 10;

interface Damage {
  readonly part: string;
  readonly error: StemmaError;
}

/**
 * Recovers the model, every checkpoint and the optimizer's state, compares their roots, and reads what the record
 * names and uses. Each part in its own pass: one is in memory at a time, and damage in one hides no other.
 * @param here the environment to report on; absent: none
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED; the error of the first damaged part, naming all
 */
export async function verifyVersion(
  context: RepositoryContext,
  versionId: Hash,
  { here }: { readonly here?: Environment | undefined } = {},
): Promise<VerifiedVersion> {
  const version = requireKept(context, versionId);
  const { record } = version;
  await context.droppedTensors.ensure(context, versionId);
  context.objects.forgetReadAhead();
  const proven: string[] = [];
  const damaged: Damage[] = [];
  const prove = async (part: string, read: () => Promise<unknown>): Promise<void> => {
    try {
      await read();
      proven.push(part);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      damaged.push({ part, error });
    }
  };
  let model: RecoveredModel | undefined;
  await prove(describePart("model"), async () => {
    model = await recoverFromDisk(context, version, { part: "model", here });
  });
  for (const tree of treesOf(record)) {
    const part = tree.part === "checkpoint" ? { checkpoint: tree.iteration } : tree.part;
    if (part !== "model") await prove(describePart(part), () => recoverFromDisk(context, version, { part }));
  }
  const isOptional = mayBeAbsent(context.state.redacted);
  for (const object of objectsOf(record)) {
    if (object.kind === "tree" || (isOptional(object) && !context.objects.has(object.id))) continue;
    await prove(`the object ${object.id.slice(0, 16)} of kind ${object.kind}`, async () => {
      for await (const piece of context.objects.openStream(object.kind, object.id).chunks()) void piece;
      if (object.kind === "data" && version.dataDropped === undefined)
        await readStoredData(context.objects, object.id);
    });
  }
  if (damaged.length > 0 || model === undefined) throw damageError(version, damaged);
  return { model, parts: proven };
}

/** Reads the chunks of a stored data set, if the object is its manifest, and compares the content hash. */
async function readStoredData(objects: RepositoryContext["objects"], id: Hash): Promise<void> {
  const manifest = await readManifest(objects, id);
  if (manifest?.kept === "chunks") for await (const piece of readData(objects, manifest)) void piece;
}

async function recoverFromDisk(
  { objects, clock }: RepositoryContext,
  { versionId, name, version, record }: VersionSummary,
  { part, here }: { readonly part: RecoveredPart; readonly here?: Environment | undefined },
): Promise<RecoveredModel> {
  const recovered = await recoverModel(objects, versionId, clock, {
    part,
    policy: here === undefined ? "ignore" : "report",
    ...defined({ here }),
    holdBytes: 0,
    fromDisk: true,
  });
  if (part === "model" && recovered.verifiedRoot !== record.root)
    throw new StemmaError(
      "ROOT_MISMATCH",
      `${name}:${version} was read back from the disk with the root ${recovered.verifiedRoot}, but ${record.root} is recorded. \`stemma storage check\` finds what is damaged.`,
      { expected: record.root, actual: recovered.verifiedRoot },
    );
  return recovered;
}

function damageError(
  { name, version }: Pick<VersionSummary, "name" | "version">,
  damaged: readonly Damage[],
): StemmaError {
  const [{ error: first }] = damaged as [Damage, ...Damage[]];
  const named = damaged
    .slice(0, maxNamedParts)
    .map(({ part, error }) => `${part} (${messageOf(error)})`)
    .join("; ");
  const more = damaged.length > maxNamedParts ? `; and ${damaged.length - maxNamedParts} more` : "";
  return new StemmaError(
    first.code,
    `Of ${name}:${version}, ${damaged.length === 1 ? "this part is" : "these parts are"} damaged or missing: ${named}${more}. Everything else of it is stored as it was saved.`,
    { ...first.details, cause: first, damaged: damaged.map(({ part }) => part) },
  );
}
