/**
 * Import: a model file becomes a version. A file of this machine is read in place. A stream is written to
 * disk first, because only after the complete model is hashed is it known which parts are new.
 */
import { isAbsolute, join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Files, FileStat } from "../../../shared/ports.js";
import { architectureHash } from "../../../shared/model/architecture.js";
import type { ModelSource, UnhashedModel } from "../../../shared/model/model.js";
import { readLoneFile } from "../../../shared/forms/model-file.js";
import { modelSourceOfSafetensors, modelToSaveOfSafetensors } from "../../../shared/save/model-source.js";
import { completeModel } from "../../../shared/save/partial-model.js";
import { leavesOfSave, type SaveUses } from "../../../shared/save/save-uses.js";
import { layoutName } from "../../../shared/layouts/layout.js";
import { planSave } from "../../../shared/save/plan-save.js";
import { loadSaveBase } from "../../../shared/save/save-model.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import type { ExportedStory } from "../../../shared/provenance/exported-story.js";
import { zeroHash } from "../../../shared/tensor/hash.js";
import { otherShape } from "../../services/context/context-errors.js";
import { canonicalMeasurements } from "../../../shared/provenance/measurement-forms.js";
import type { Measurement } from "../../../shared/train/training.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { ImportOptions, ImportStream, LocalFile } from "../../interface/api/server-operations.js";
import type { ImportReport } from "../../interface/api/models/import-schemas.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { refuseMisspeltLines } from "../../services/context/expected-names.js";
import {
  differenceFromLine,
  refuseOtherNetwork,
  shapeOfModel,
} from "../../services/context/expected-shape.js";
import { layoutFrom } from "../../services/context/inherited-layout.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import {
  checkParts,
  openParts,
  receiveParts,
  StreamCutter,
  type OpenedParts,
  type ReceivedPart,
} from "./import-parts.js";
import { fileInBaseLayout } from "./import-in-layout.js";
import { attachmentsWithRest } from "./import-rest.js";
import { checkKeptFile } from "./import-kept-file.js";
import { checkAdapter } from "./import-adapter.js";
import { checkPartial, parentOf, partialBaseOf } from "./import-partial.js";
import { likelyBases } from "./likely-bases.js";
import { baseOfStory, modelOfStory, savedStory, storyInFile } from "./import-story.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { changedWhileImported, fileNotShared, importCutOff } from "./model-errors.js";

/**
 * @throws MODEL_FILE_MALFORMED, SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED, MODEL_JSON_MALFORMED, LAYER_NOT_ALLOWED,
 * ARCHITECTURE_MISMATCH, STORY_INVALID, STORY_MISMATCH, MODEL_NOT_FOUND (base), NAME_INVALID, DISK_FULL,
 * FILE_CHANGED (nothing is saved then),
 * FILE_NOT_SHARED
 */
export async function importModel(
  context: OperationsContext,
  stream: ImportStream,
  options: ImportOptions,
): Promise<ImportReport> {
  const { home } = context;
  const { files, random } = home.ports;
  const { localFile } = stream;
  const { parts = [] } = options;
  checkParts(parts);
  checkPartial(options);
  // With further files, everything is received.
  if (localFile !== undefined && parts.length === 0) {
    await requireShared(files, localFile);
    await requireRoom(home, options.dryRun === true ? 0 : localFile.size);
    return await importFile(context, { path: localFile.path, parts: [] }, options, async () => {
      if (!(await isSameFile(files, localFile))) throw changedWhileImported(nameIn(options), localFile.path);
    });
  }
  const repository = await fleetOf(context, options);
  const parent = parentOf(repository, options);
  if (parent !== undefined) repository.resolve(parent); // The folder exists before the file is received.
  const folder = workFolderOf(home);
  await files.makeFolder(folder);
  const temporary = join(folder, `import-${Buffer.from(random.bytes(8)).toString("hex")}.safetensors`);
  await requireRoom(home, Math.max(0, stream.byteLength));
  const cutter = new StreamCutter(stream.chunks);
  const { received, remove } = await receiveParts(home.ports, folder, { parts, stream: cutter });
  try {
    const partBytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const byteLength = stream.byteLength < 0 ? stream.byteLength : stream.byteLength - partBytes;
    await receive(files, temporary, { byteLength, chunks: cutter.rest() });
    return await importFile(context, { path: temporary, parts: received }, options, () => Promise.resolve());
  } finally {
    await files.remove(temporary);
    await remove();
  }
}

/** @throws NAME_UNLIKELY for its fleet or line, NOT_FOUND for a fleet in a dry run */
async function fleetOf(
  { fleets }: OperationsContext,
  { fleet, line, dryRun, force }: ImportOptions,
): Promise<FleetRepository> {
  const repository = await fleets.get(fleet, { create: dryRun !== true, force });
  if (force !== true && line !== undefined) refuseMisspeltLines(repository, [line]);
  return repository;
}

/** @throws BASE_UNRELATED, SHAPE_DIFFERENT; MODEL_FILE_MALFORMED, ARCHITECTURE_MISMATCH for an adapter */
async function refuseUnexpected(
  repository: FleetRepository,
  { model, base, story }: ImportedModel<ModelSource | UnhashedModel>,
  { name, line, lease, force, attachments }: ImportOptions,
): Promise<void> {
  // A story and a transfer say themselves what the model comes from.
  if (force === true) return;
  const leaves = "unhashedLeaves" in model ? model.unhashedLeaves : model.leaves;
  const shape = shapeOfModel(leaves, model.architecture);
  if (base !== undefined && story === undefined && lease === undefined)
    if (!(await checkAdapter(repository, leaves, base, { attachments })))
      await refuseOtherNetwork(repository, base, shape, name);
  const difference = line === undefined ? undefined : await differenceFromLine(repository, line, shape);
  if (line !== undefined && difference !== undefined) throw otherShape(line, name, difference);
}

/** Returns the name of the imported file for messages. */
function nameIn({ fileName, name }: ImportOptions): string {
  return fileName === undefined ? `The file given for ${JSON.stringify(name)}` : `The file ${fileName}`;
}

/** @throws FILE_NOT_SHARED where this process cannot read the very file that the client named */
async function requireShared(files: Files, { path, size, modifiedMs }: LocalFile): Promise<void> {
  const refuse = (reason: string, cause?: unknown): StemmaError => fileNotShared(reason, path, cause);
  if (!isAbsolute(path)) throw refuse("needs the absolute path of a file");
  let found: FileStat | undefined;
  try {
    found = await files.stat(path);
    if (found?.kind === "file") await (await files.open(path, "read")).close();
  } catch (cause) {
    throw refuse("cannot read this file", cause);
  }
  if (found?.kind !== "file" || found.size !== size || found.modifiedMs !== modifiedMs)
    throw refuse("finds another file at this path, or none");
}

async function isSameFile(files: Files, { path, size, modifiedMs }: LocalFile): Promise<boolean> {
  const found = await files.stat(path);
  return found?.kind === "file" && found.size === size && found.modifiedMs === modifiedMs;
}

/** @param requireUnchanged throws where the file changed since it was described */
async function importFile(
  context: OperationsContext,
  { path, parts }: { readonly path: string; readonly parts: readonly ReceivedPart[] },
  options: ImportOptions,
  requireUnchanged: () => Promise<void>,
): Promise<ImportReport> {
  const { files } = context.home.ports;
  const repository = await fleetOf(context, options);
  const parent = parentOf(repository, options);
  const named = parent === undefined ? undefined : repository.resolve(parent);
  const openFile = await files.open(path, "read");
  let opened: OpenedParts | undefined;
  try {
    const where = nameIn(options);
    const { file, notes, architecture, rest } = await readLoneFile(openFile, where);
    const layers = options.architecture ?? architecture;
    const modelJson = layers === undefined ? undefined : new TextEncoder().encode(layers);
    const story = await storyInFile(file, where, options);
    const base = story === undefined ? named : await baseOfStory(repository, story, named);
    const prepare = options.dryRun === true ? modelSourceOfSafetensors : modelToSaveOfSafetensors;
    const isDescribed = modelJson !== undefined || story !== undefined;
    const inLayout = await fileInBaseLayout(repository, { file, where, isDescribed }, base, options);
    const model =
      story !== undefined
        ? await modelOfStory({ file, where }, story, modelJson)
        : options.onto === undefined || base === undefined
          ? await prepare(inLayout?.file ?? file, where, inLayout?.options ?? defined({ modelJson }))
          : completeModel(
              await modelSourceOfSafetensors(file, where),
              await partialBaseOf(repository, base),
              (tensor) => repository.objects.openTensor(tensor),
            );
    await requireUnchanged();
    const isFile = await checkKeptFile(model);
    await refuseUnexpected(repository, { model, base, uses: undefined, story }, options);
    opened = await openParts(files, parts, modelJson);
    const { uses } = opened;
    const own = inLayout ?? (await layoutOfOwnNames(repository, { model, base, story }, options));
    const attachments = [...(options.attachments ?? []), ...(own.attachments ?? [])];
    const kept = await attachmentsWithRest(model, { ...options, attachments }, rest);
    const allNotes = [...notes, ...(inLayout?.notes ?? []), ...kept.notes];
    const noted = {
      ...(allNotes.length === 0 ? {} : { notes: allNotes }),
      ...(isFile ? { isFile } : {}),
      ...(await hintOf(repository, { model, base, story }, options)),
    };
    if (options.dryRun !== true)
      return {
        ...(await save(context, repository, { model, base, uses, story }, { ...options, ...kept })),
        ...noted,
      };
    if ("unhashedLeaves" in model)
      throw new StemmaError("INTERNAL", "A dry run got a model that is not hashed. Report this.");
    return { ...(await reportDry(repository, { model, base, uses, story })), ...noted };
  } catch (error) {
    // A change explains whatever was found wrong. The bytes of a large file are read again while they are saved,
    // and compared with the ids of their tensors.
    await requireUnchanged();
    throw error;
  } finally {
    await opened?.close();
    await openFile.close();
  }
}

/** A model with the layers of its base, in the architecture's names, has the base's layout, too. */
async function layoutOfOwnNames(
  repository: FleetRepository,
  { model, base, story }: Omit<ImportedModel<ModelSource | UnhashedModel>, "uses">,
  { onto, attachments = [] }: ImportOptions,
): Promise<Pick<ImportOptions, "attachments">> {
  const hasOwn = attachments.some(({ name }) => name === layoutName);
  return story !== undefined || onto !== undefined || hasOwn ? {} : await layoutFrom(repository, base, model);
}

/** Versions that may be its base, where nobody named one: a story says itself what the model was trained from. */
async function hintOf(
  repository: FleetRepository,
  { model, base, story }: Omit<ImportedModel<ModelSource | UnhashedModel>, "uses">,
  { name, furtherBases = [] }: ImportOptions,
): Promise<Pick<ImportReport, "likelyBases">> {
  if (base !== undefined || story !== undefined || furtherBases.length > 0) return {};
  const likely = await likelyBases(repository, model, name);
  return likely.length === 0 ? {} : { likelyBases: likely };
}

/** The parts that an import saves. */
interface ImportedModel<Model extends ModelSource | UnhashedModel> {
  readonly model: Model;
  readonly base: VersionSummary | undefined;
  readonly uses: SaveUses | undefined;
  readonly story: ExportedStory | undefined;
}

async function receive(files: Files, path: string, { byteLength, chunks }: ImportStream): Promise<void> {
  const file = await files.open(path, "create");
  try {
    let receivedBytes = 0;
    for await (const chunk of chunks) {
      await file.write(chunk, receivedBytes);
      receivedBytes += chunk.length;
    }
    if (byteLength >= 0 && receivedBytes !== byteLength) throw importCutOff(receivedBytes, byteLength);
  } finally {
    await file.close();
  }
}

/** Bytes of the tensors of all files. */
function totalBytes(model: Pick<ModelSource, "leaves">, uses: SaveUses | undefined): number {
  return leavesOfSave(model, uses).reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
}

async function save(
  { live }: OperationsContext,
  repository: FleetRepository,
  { model, base, uses: given, story }: ImportedModel<ModelSource | UnhashedModel>,
  { name, device, line, metadata, attachments, lease, furtherBases = [], measurements = [] }: ImportOptions,
): Promise<ImportReport> {
  const further = furtherBases.map((model) => repository.resolve(model));
  const kept = story === undefined ? undefined : await savedStory(repository, story);
  const uses = kept === undefined ? given : { ...kept.uses, ...given };
  const report = await repository.save(model, {
    ...kept,
    name,
    ...defined({ device, line }),
    bases: [
      ...new Set([...(base === undefined ? [] : [base]), ...further].map(({ versionId }) => versionId)),
    ],
    ...(measurements.length === 0
      ? {}
      : { measurements: canonicalMeasurements(measurements as readonly Measurement[]) }),
    ...defined({ lease }),
    ...(Object.keys(metadata ?? {}).length === 0 ? {} : { metadata: { ...kept?.metadata, ...metadata } }),
    ...(attachments === undefined || attachments.length === 0
      ? {}
      : { attachments: [...(kept?.attachments ?? []), ...attachments] }),
    ...defined({ uses }),
  });
  const { summary } = report;
  if (lease !== undefined) await repository.leases.end(lease);
  const liveFleet = await live?.fleet(repository.fleet);
  if (liveFleet !== undefined) liveFleet.saved(summary.versionId);
  return {
    summary,
    approach: report.approach,
    changed: report.changed,
    tensors: report.leaves.length,
    tensorBytes: totalBytes(report, uses),
    newTensorBytes: report.newTensorBytes,
    overheadBytes: report.overheadBytes,
    unchanged: base !== undefined && base.record.contentId === summary.record.contentId,
    ...originOf(story),
  };
}

async function planAgainst(
  repository: FleetRepository,
  model: ModelSource,
  base: VersionSummary | undefined,
): Promise<{ readonly approach: "snapshot" | "update"; readonly changed: number }> {
  const against = base === undefined ? undefined : await loadSaveBase(repository.objects, base.versionId);
  const { approach, changed } = planSave(
    {
      architecture: model.architecture === undefined ? zeroHash : architectureHash(model.architecture),
      leaves: model.leaves,
    },
    against,
  );
  return { approach, changed: changed.length };
}

async function reportDry(
  repository: FleetRepository,
  { model, base, uses, story }: ImportedModel<ModelSource>,
): Promise<ImportReport> {
  const { approach, changed } = await planAgainst(repository, model, base);
  const missing = new Map(
    leavesOfSave(model, uses)
      .filter(({ tensor }) => !repository.objects.has(tensor))
      .map((leaf) => [leaf.tensor, tensorByteLength(leaf.dtype, leaf.shape)]),
  );
  return {
    summary: undefined,
    approach,
    changed,
    tensors: model.leaves.length,
    tensorBytes: totalBytes(model, uses),
    newTensorBytes: [...missing.values()].reduce((sum, bytes) => sum + bytes, 0),
    overheadBytes: 0,
    unchanged:
      base !== undefined &&
      changed === 0 &&
      model.leaves.length === (await repository.leaves(base.versionId)).length,
    ...originOf(story),
  };
}

function originOf(story: ExportedStory | undefined): Pick<ImportReport, "story"> {
  if (story === undefined) return {};
  const { fleet, name, device } = story.record;
  return { story: { versionId: story.versionId, fleet, name, device } };
}
