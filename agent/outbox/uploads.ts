/**
 * Answers the server's wants with blocks: one running sender a transfer, made again from the want
 * whenever one comes, so that nothing of it need survive a restart. Knows the link as a function.
 */
import { StemmaError } from "../../shared/errors.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { Block, BlockRequest, Encoding, ManifestPart, ObjectRef, Want } from "../../shared/wire/messages.js";
import { boundedBlockBytes } from "../../shared/wire/transfer/manifest.js";
import { runSender, type RunningSender } from "../../shared/wire/transfer/run-sender.js";
import { streamObjectOfBytes, type StreamObject } from "../../shared/wire/transfer/stream.js";

export interface UploadsOptions {
  readonly objects: ObjectReader;
  readonly clock: Clock;
  readonly log: Log;
  /** The profile's; the want's own is used where it is smaller. */
  readonly blockBytes: number;
  /** Sends and waits for the link's pace; false when no session is open. */
  send(transfer: string, message: ManifestPart | Block): Promise<boolean>;
}

export interface UploadProgress { readonly versionId: Hash; readonly transfer: string; readonly byteLength: number; readonly sentBytes: number }

/** Transfers kept at a time; the one that was asked for longest ago goes first, and its want is answered anew. */
const maxUploads = 16;

interface Upload { readonly versionId: Hash; readonly sender: RunningSender; readonly progress: { sentBytes: number } }

export class Uploads {
  readonly #running = new Map<string, Upload>();
  constructor(private readonly options: UploadsOptions) {}

  /** Bytes sent and due, of all transfers under way. */
  progress(): readonly UploadProgress[] {
    return [...this.#running].map(([transfer, { versionId, sender, progress }]) => ({ versionId, transfer, byteLength: sender.machine.shape.byteLength, sentBytes: progress.sentBytes }));
  }
  isMoving(versionId: Hash): boolean { return [...this.#running.values()].some((upload) => upload.versionId === versionId); }

  /**
   * Begins (or, after a restart of either side, begins again) to answer a whole want.
   * @throws OBJECT_MISSING when something wanted is not here any more
   */
  async begin(want: Want): Promise<void> {
    const { refs, raw } = await refsOfWant(this.options.objects, want);
    const objects = await Promise.all(refs.map((ref) => this.#streamObject(ref)));
    // Sizes that the receiver could not know are said by encodings; code 0 is raw.
    const encodings: readonly Encoding[] = raw ? [] : objects.map(({ byteLength }) => ({ code: 0, byteLength }));
    const blockBytes = boundedBlockBytes(Math.min(this.options.blockBytes, want.blockBytes === 0 ? Infinity : want.blockBytes));
    await this.end(want.transfer);
    const progress = { sentBytes: 0 };
    const sender = runSender({ transfer: want.transfer, blockBytes, encodings }, objects, {
      clock: this.options.clock,
      send: async (message) => {
        if (!(await this.options.send(want.transfer, message))) throw new StemmaError("SERVER_UNREACHABLE", "No session is open; the block is asked for again.");
        if (message.type === "block") progress.sentBytes += message.data.length;
      },
      onFailed: (error) => {
        this.options.log.error("upload-failed", { version: want.versionId, transfer: want.transfer, text: (error as Error).message });
        this.#running.delete(want.transfer);
      },
    });
    this.#running.set(want.transfer, { versionId: want.versionId, sender, progress });
    if (this.#running.size > maxUploads) await this.end([...this.#running].sort(([, a], [, b]) => (a.sender.machine.lastRequestMs ?? 0) - (b.sender.machine.lastRequestMs ?? 0))[0]?.[0] ?? "");
  }

  /** False when the transfer is not known here (a restart): the version is then announced again. */
  onRequest(request: BlockRequest): boolean {
    const upload = this.#running.get(request.transfer);
    upload?.sender.onRequest(request);
    return upload !== undefined;
  }

  async end(transfer: string): Promise<void> {
    const upload = this.#running.get(transfer);
    this.#running.delete(transfer);
    if (upload === undefined) return;
    await upload.sender.stop();
    this.options.log.debug("upload-ended", { version: upload.versionId, transfer, sentBytes: upload.progress.sentBytes, byteLength: upload.sender.machine.shape.byteLength });
  }

  /** The server has it all: whatever still runs for this version ends. */
  async endVersion(versionId: Hash): Promise<void> {
    for (const [transfer, upload] of [...this.#running]) if (upload.versionId === versionId) await this.end(transfer);
  }

  reconnected(): void { for (const { sender } of this.#running.values()) sender.reconnected(); }

  async stop(): Promise<void> { for (const transfer of [...this.#running.keys()]) await this.end(transfer); }

  async #streamObject(ref: ObjectRef): Promise<StreamObject> {
    // The receiver hashes what it gets, block by block and whole: once more here would be for nothing.
    if (ref.kind === "tensor") return this.options.objects.openTensor(ref.id, { verify: false });
    return streamObjectOfBytes(await this.options.objects.read(ref.kind, ref.id));
  }
}

/**
 * The objects of a whole want, in the order of the stream, and whether the receiver knows their sizes.
 * @throws OBJECT_MISSING, ENVELOPE_MALFORMED for an index outside the tree
 */
async function refsOfWant(objects: ObjectReader, want: Want): Promise<{ readonly refs: readonly ObjectRef[]; readonly raw: boolean }> {
  if (want.tensorIndices.length === 0) return { refs: want.objects, raw: want.objects.every(({ id, byteLength }) => objects.stat(id)?.byteLength === byteLength) };
  const record = decodeSaveRecord(await objects.read("record", want.versionId));
  const { leaves } = decodeTree(await objects.read("tree", record.objects.tree));
  const refs = want.tensorIndices.map((index): ObjectRef => {
    const leaf = leaves[index];
    if (leaf === undefined) throw new StemmaError("ENVELOPE_MALFORMED", `The server wants tensor ${index} of a model that has ${leaves.length}. It is ignored.`, { index });
    return { kind: "tensor", id: leaf.tensor, byteLength: objects.stat(leaf.tensor)?.byteLength ?? 0 };
  });
  return { refs, raw: true };
}
