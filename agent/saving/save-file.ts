/**
 * Saves a file that another program of the device trained as the next version of a line. It is durable in the
 * outbox like a model that Stemma trained. The file is read in place. A file whose model the line has already
 * makes no second version, so that a program may repeat a save whose answer it did not get.
 */
import { realpath } from "node:fs/promises";
import { basename, isAbsolute, join, sep } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import { openRegularFile } from "../../shared/files/regular-file.js";
import { architectureHash } from "../../shared/model/architecture.js";
import { layoutIdOf } from "../../shared/layouts/base-layout.js";
import { decodeLayout, layoutName } from "../../shared/layouts/layout.js";
import { keptFileOf } from "../../shared/model/kept-file.js";
import type { ModelSource, SaveRecord } from "../../shared/model/model.js";
import { contentId, treeRoot } from "../../shared/model/tree.js";
import { zeroHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { maxAttachmentBytes } from "../../shared/save/attachment-limit.js";
import type { CurrentStore } from "../current/current-store.js";
import type { Outbox } from "../outbox/outbox.js";
import { activeVersion } from "../outbox/outbox-state.js";
import { heldBytes } from "../resources/held-bytes.js";
import { checkModel, type CheckedModel, type CheckOptions } from "./check-model.js";
import { findVersion } from "./find-version.js";
import { attachmentsWithLayout, modelOfLine, type LineModel } from "./line-model.js";
import { openLineFile } from "./open-line-file.js";
import type { Attachment } from "../../shared/programs/read-output.js";
import { noMetrics, parseMetrics } from "../../shared/programs/metrics.js";
import { storeModel, type StoredModel, type StoreModelOptions } from "./store-model.js";

export interface SaveFileRequest {
  /** Absolute path of a model file of any form that is read (shared/forms). */
  readonly file: string;
  /** The version that it was trained from, on this device; the one that the line runs when absent. */
  readonly base?: string | undefined;
  /** The metrics as in metrics.json (metrics.ts). */
  readonly metrics?: unknown;
  /** Absolute paths of files that are kept with the version. */
  readonly attachments?: readonly string[] | undefined;
  /** Saves the model also where the line has the same one already. */
  readonly again?: boolean | undefined;
  /** Outputs of the same network by the tool that trained it, which the engine has to give too. */
  readonly check?: { readonly file: string; readonly tolerance?: number | undefined } | undefined;
  /** Keeps the file as it is, where the line has no model yet; a line that delivers a file goes on so by itself. */
  readonly as?: "file" | undefined;
}

export interface SavedFile extends StoredModel {
  readonly line: string;
  /** False: the line had this model already, and nothing was saved. */
  readonly isNew: boolean;
  readonly base: Hash | null;
  /** Name of the file, where it is kept as it is. */
  readonly keptAs?: string;
  /** Sentences about what of the file is not kept, or is read as something else. */
  readonly notes?: readonly string[];
}

export interface FileSaverOptions extends StoreModelOptions, CheckOptions {
  readonly home: string;
  readonly current: Pick<CurrentStore, "active">;
}

/** A save record names at most 256. */
const maxAttachments = 200;

export class FileSaver {
  /** Serially: of two equal saves the second must find the first. */
  readonly #queue = new SerialQueue();
  readonly #abort = new AbortController();

  constructor(private readonly options: FileSaverOptions) {}

  /**
   * Saves a file; resolves once the version is durable. A failure saves nothing.
   * @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_CHANGED, SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED,
   * ARCHITECTURE_MISMATCH, MODEL_NOT_FOUND (base), SIZE_OVER_LIMIT (attachments), DISK_BUDGET_EXHAUSTED, USAGE; what
   * checkModel throws
   */
  save(line: string, request: SaveFileRequest): Promise<SavedFile> {
    return this.#queue.run(() => this.#save(line, request));
  }

  /** Ends a check that runs. */
  stop(): void {
    this.#abort.abort();
  }

  /**
   * Saves a model that this process makes from the version which the line runs.
   * @param kind what is stated of its making
   * @throws MODEL_NOT_FOUND where it runs none, DISK_BUDGET_EXHAUSTED, what `make` throws
   */
  saveMade(
    line: string,
    kind: string,
    make: (base: Hash, outbox: Pick<Outbox, "record" | "leaves" | "objects">) => Promise<ModelSource>,
  ): Promise<StoredModel> {
    return this.#queue.run(async () => {
      const base = await this.#running(line);
      if (base === undefined)
        throw new StemmaError("MODEL_NOT_FOUND", `The line ${line} runs no model yet.`, { line });
      return await storeModel(this.options, await make(base, this.options.outbox), {
        line,
        base,
        metrics: noMetrics,
        attachments: [],
        samples: null,
        provenance: { course: { kind } },
      });
    });
  }

  async #save(line: string, request: SaveFileRequest): Promise<SavedFile> {
    requireAbsolute(request.file);
    const base = await this.#baseOf(line, request.base);
    const metrics =
      request.metrics === undefined ? noMetrics : parseMetrics(request.metrics, "The metrics", "USAGE");
    const attachments = await this.#readAttachments(request.attachments ?? []);
    const {
      file,
      notes: ofFile,
      requireUnchanged,
      size,
      close,
    } = await openLineFile(this.options.outbox, {
      path: request.file,
      line,
      base,
      as: request.as,
    });
    try {
      const found = await modelOfLine(this.options.outbox, {
        file,
        where: request.file,
        line,
        base,
        holdBytes: heldBytes(this.options.profile),
      });
      await requireUnchanged();
      const { model } = found;
      const checked = await this.#checked(line, model, request);
      const same = request.again === true ? undefined : await this.#sameModel(line, base, found);
      if (same !== undefined) return same;
      const stored = await storeModel(this.options, model, {
        line,
        base,
        metrics: { ...metrics, metadata: { ...metrics.metadata, ...checked?.metadata } },
        attachments: attachmentsWithLayout(attachments, found),
        samples: null,
        provenance: { course: { kind: "submitted", fileBytes: size } },
      });
      const { versionId, sequence } = stored;
      this.options.log.info("saved", {
        line,
        versionId,
        sequence,
        base,
        text: `${line}: a file of another program was saved as model ${sequence} (${versionId.slice(0, 12)})`,
      });
      const keptAs = keptFileOf(model)?.name;
      const notes = [...ofFile, ...found.notes, ...(checked === undefined ? [] : [checked.note])];
      const answer = { line, ...stored, isNew: true, base: base ?? null, ...defined({ keptAs }) };
      return { ...answer, ...(notes.length === 0 ? {} : { notes }) };
    } catch (error) {
      // A change explains whatever was found wrong. The bytes of a large file are read again while they are saved,
      // and compared with the ids of their tensors.
      await requireUnchanged();
      throw error;
    } finally {
      await close();
    }
  }

  async #checked(
    line: string,
    model: ModelSource,
    { check }: Pick<SaveFileRequest, "check">,
  ): Promise<CheckedModel | undefined> {
    if (check === undefined) return undefined;
    requireAbsolute(check.file);
    const { tolerance } = check;
    const workFolder = join(this.options.home, "work", `check-${line}`);
    const { signal } = this.#abort;
    return await checkModel(this.options, model, {
      line,
      samples: check.file,
      tolerance,
      workFolder,
      signal,
    });
  }

  /** The link's version: programs train from that, also in the moment before the switch is recorded. */
  async #running(line: string): Promise<Hash | undefined> {
    const { outbox, current } = this.options;
    const linked = await current.active(line);
    return linked !== undefined && outbox.entry(linked) !== undefined
      ? linked
      : activeVersion(outbox.state, line);
  }

  async #baseOf(line: string, wanted: string | undefined): Promise<Hash | undefined> {
    const { state } = this.options.outbox;
    if (wanted === undefined) return await this.#running(line);
    const versions = (state.lines.get(line)?.versions ?? []).flatMap((versionId) => {
      const entry = state.entries.get(versionId);
      if (entry === undefined) return [];
      const { name, version } = entry;
      return [{ versionId, name: version === undefined ? name : `${name}:${version}` }];
    });
    return findVersion(versions, line, wanted).versionId;
  }

  /** The answer where the newest version of the line, or the base, is this model. */
  async #sameModel(
    line: string,
    base: Hash | undefined,
    { model, layout }: Pick<LineModel, "model" | "layout">,
  ): Promise<SavedFile | undefined> {
    const { outbox } = this.options;
    const architecture = model.architecture === undefined ? zeroHash : architectureHash(model.architecture);
    const content = contentId(architecture, treeRoot(model.leaves));
    const root = layout && decodeLayout(layout, model.leaves).root;
    for (const versionId of [outbox.newest(line)?.versionId, base]) {
      const entry = versionId === undefined ? undefined : outbox.entry(versionId);
      if (entry === undefined) continue;
      const { record } = await outbox.record(entry.versionId);
      if (record.contentId !== content) continue;
      // Tensors beside the weights are not in the content's id.
      if (root !== undefined && root !== (await this.#layoutRootOf(record, model))) continue;
      return {
        line,
        versionId: entry.versionId,
        sequence: entry.sequence,
        isNew: false,
        base: record.bases[0] ?? null,
        tensors: model.leaves.length,
        changed: 0,
        tensorBytes: entry.tensorBytes,
        newTensorBytes: 0,
      };
    }
    return undefined;
  }

  /** The root of the tensors of a version's file in its layout; undefined where it has none. */
  async #layoutRootOf(record: SaveRecord, { leaves }: ModelSource): Promise<Hash | undefined> {
    const id = layoutIdOf(record);
    return id && decodeLayout(await this.options.outbox.objects.read("attachment", id), leaves).root;
  }

  async #readAttachments(paths: readonly string[]): Promise<readonly Attachment[]> {
    if (paths.length > maxAttachments)
      throw new StemmaError(
        "SIZE_OVER_LIMIT",
        `${paths.length} files were named to be attached; at most ${maxAttachments} are allowed. Name ` +
          "fewer, or pack them into one.",
      );
    const attachments: Attachment[] = [];
    let left = maxAttachmentBytes;
    for (const path of paths) {
      requireAbsolute(path);
      const name = basename(path);
      if (name === layoutName)
        throw new StemmaError(
          "USAGE",
          `${name} is the name of what Stemma attaches itself. Rename the file.`,
        );
      if (attachments.some((one) => one.name === name))
        throw new StemmaError("USAGE", `Two files to be attached have the name ${name}. Rename one of them.`);
      await this.#requireOutsideHome(path);
      const bytes = await readAttachment(path, left);
      left -= bytes.length;
      attachments.push({ name, bytes });
    }
    return attachments;
  }

  /** The home holds the device's key and token; what is attached travels to the server. */
  async #requireOutsideHome(path: string): Promise<void> {
    const home = await realpath(this.options.home).catch(() => this.options.home);
    const real = await realpath(path).catch(() => path);
    if (real === home || real.startsWith(join(home, sep)))
      throw new StemmaError(
        "NOT_ALLOWED",
        `${path} is in the agent's home, which holds the device's secrets, so it is not attached. Copy ` +
          "it to another folder first.",
        { path },
      );
  }
}

/** @throws SIZE_OVER_LIMIT where the file has more than `maxBytes` */
async function readAttachment(path: string, maxBytes: number): Promise<Uint8Array> {
  const { file, size, requireUnchanged } = await openRegularFile(path, { followLinks: true });
  try {
    if (size > maxBytes)
      throw new StemmaError(
        "SIZE_OVER_LIMIT",
        `${path} has ${size} bytes; all files attached to a version may have ${maxAttachmentBytes}. Attach less.`,
        { path },
      );
    const bytes = new Uint8Array(size);
    await file.read(bytes, 0);
    await requireUnchanged();
    return bytes;
  } finally {
    await file.close();
  }
}

function requireAbsolute(path: string): void {
  if (!isAbsolute(path))
    throw new StemmaError("USAGE", `${path} is not an absolute path. Name the file from the root on.`);
}
