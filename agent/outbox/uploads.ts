/**
 * Answers the server's wants with blocks. There is one running sender per transfer, created again from each
 * want, so that it does not have to survive a restart. What is worth coding is coded first, in the background
 * (upload-coding.ts). Knows the link only as a function.
 */
import { messageOf } from "../../shared/error-text.js";
import { StemmaError } from "../../shared/errors.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { streamedKinds } from "../../shared/model/model.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import { readTrees } from "../../shared/objects/version-trees.js";
import type {
  Block,
  BlockRequest,
  Encoding,
  ManifestPart,
  ObjectRef,
  Want,
} from "../../shared/wire/messages.js";
import { boundedBlockBytes } from "../../shared/wire/transfer/manifest.js";
import { runSender, type RunningSender } from "../../shared/wire/transfer/run-sender.js";
import {
  storedStreamObject,
  streamObjectOfBytes,
  type StreamObject,
} from "../../shared/wire/transfer/stream.js";
import type { UploadCoding } from "./upload-coding.js";

export interface UploadsOptions {
  readonly objects: ObjectReader;
  readonly clock: Clock;
  readonly log: Log;
  /** Block size of the profile; the want's is used where it is smaller. */
  readonly blockBytes: number;
  /** The coding; absent: everything is sent raw. */
  readonly coding?: Pick<UploadCoding, "mayCode" | "prepare">;
  /** Sends and waits for the link's pace; false when no session is open. */
  send(transfer: string, message: ManifestPart | Block): Promise<boolean>;
}

export interface UploadProgress {
  readonly versionId: Hash;
  readonly transfer: string;
  /** 0 while it is being coded. */
  readonly byteLength: number;
  readonly sentBytes: number;
}

/**
 * Max transfers kept at a time. The least recently requested one is dropped first; its next want starts it
 * again.
 */
const maxUploads = 16;
/** Shorter transfers do not measure the link's rate. */
const minMeasuredBytes = 256 * 1024;

interface Stream {
  readonly objects: readonly StreamObject[];
  readonly encodings: readonly Encoding[];
  remove?(): Promise<void>;
}
interface Upload {
  readonly want: Want;
  readonly progress: { sentBytes: number; firstMs: number; lastMs: number };
  /** Ends the coding that is under way. */
  readonly abort: AbortController;
  /** undefined while the stream is being coded. */
  sender: RunningSender | undefined;
  stream: Stream | undefined;
  /** The newest request that came before the stream was ready. */
  early: BlockRequest | undefined;
}

export class Uploads {
  readonly #running = new Map<string, Upload>();
  readonly #preparing = new Set<Promise<void>>();
  #seenBytesPerSecond: number | undefined;
  constructor(private readonly options: UploadsOptions) {}

  /** Bytes sent and due, of all transfers under way. */
  progress(): readonly UploadProgress[] {
    return [...this.#running].map(
      ([
        transfer,
        {
          want: { versionId },
          sender,
          progress,
        },
      ]) => ({
        versionId,
        transfer,
        byteLength: sender?.machine.shape.byteLength ?? 0,
        sentBytes: progress.sentBytes,
      }),
    );
  }
  isMoving(versionId: Hash): boolean {
    return [...this.#running.values()].some(({ want }) => want.versionId === versionId);
  }

  /**
   * Starts to answer a complete want (again, after a restart of either side). Resolves when the want is
   * accepted; coding continues in the background, and requests that come before its end are answered after
   * it.
   * @throws OBJECT_MISSING when something wanted is not here any more
   */
  async begin(want: Want): Promise<void> {
    const before = this.#running.get(want.transfer);
    // The same want came again after a lost answer: what is coded, or being coded, is not coded again.
    if (before !== undefined && answers(before, want)) {
      before.sender?.reconnected();
      return;
    }
    const { refs, areSizesKnown } = await refsOfWant(this.options.objects, want);
    const objects = await Promise.all(refs.map((ref) => this.#streamObject(ref)));
    // The encodings state sizes that the receiver cannot know; code 0 is raw.
    const uncoded: Stream = {
      objects,
      encodings: areSizesKnown ? [] : objects.map(({ byteLength }) => ({ code: 0, byteLength })),
    };
    await this.end(want.transfer);
    const upload: Upload = {
      want,
      progress: { sentBytes: 0, firstMs: 0, lastMs: 0 },
      abort: new AbortController(),
      sender: undefined,
      stream: undefined,
      early: undefined,
    };
    this.#running.set(want.transfer, upload);
    const others = [...this.#running].filter(([, one]) => one !== upload);
    if (others.length >= maxUploads)
      await this.end(
        others.sort(
          ([, a], [, b]) => (a.sender?.machine.lastRequestMs ?? 0) - (b.sender?.machine.lastRequestMs ?? 0),
        )[0]?.[0] ?? "",
      );
    const { coding } = this.options;
    if (coding === undefined || !areSizesKnown || !coding.mayCode(want)) {
      this.#send(upload, uncoded);
      return;
    }
    const preparing = this.#codeAndSend(upload, this.#coded(upload, coding, refs, objects), uncoded);
    this.#preparing.add(preparing);
    void preparing.finally(() => this.#preparing.delete(preparing));
  }

  /** The stream with coded tensors before the objects that stream, which travel raw; undefined: send all raw. */
  async #coded(
    { want, abort }: Upload,
    coding: Pick<UploadCoding, "prepare">,
    refs: readonly ObjectRef[],
    objects: readonly StreamObject[],
  ): Promise<Stream | undefined> {
    const count = want.tensorIndices.length;
    const others = objects.slice(count);
    const otherBytes = others.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const { streamBytes } = want;
    const coded = await coding.prepare(
      streamBytes === undefined ? want : { ...want, streamBytes: streamBytes - otherBytes },
      refs.slice(0, count),
      this.#seenBytesPerSecond,
      abort.signal,
    );
    return (
      coded && {
        objects: [...coded.objects, ...others],
        encodings: [...coded.encodings, ...others.map(({ byteLength }) => ({ code: 0, byteLength }))],
        remove: () => coded.remove(),
      }
    );
  }

  /** Sends the stream once it is coded, or uncoded where coding is not worth it. Never rejects. */
  async #codeAndSend(upload: Upload, coding: Promise<Stream | undefined>, uncoded: Stream): Promise<void> {
    try {
      const coded = await coding;
      // The server or a newer want may have ended the upload meanwhile.
      if (this.#running.get(upload.want.transfer) === upload) this.#send(upload, coded ?? uncoded);
      else await coded?.remove?.();
    } catch (error) {
      this.#failed(upload, error);
    }
  }

  #send(upload: Upload, stream: Stream): void {
    const { want, progress } = upload;
    const blockBytes = boundedBlockBytes(
      Math.min(this.options.blockBytes, want.blockBytes === 0 ? Infinity : want.blockBytes),
    );
    upload.stream = stream;
    upload.sender = runSender(
      { transfer: want.transfer, blockBytes, encodings: stream.encodings },
      stream.objects,
      {
        clock: this.options.clock,
        send: async (message) => {
          if (message.type === "block") progress.firstMs ||= this.options.clock.monotonic();
          if (!(await this.options.send(want.transfer, message)))
            throw new StemmaError("SERVER_UNREACHABLE", "No session is open; the block is asked for again.");
          if (message.type === "block") {
            progress.sentBytes += message.data.length;
            progress.lastMs = this.options.clock.monotonic();
          }
        },
        onFailed: (error) => {
          this.#failed(upload, error);
        },
      },
    );
    if (upload.early !== undefined) upload.sender.onRequest(upload.early);
    upload.early = undefined;
  }
  #failed(upload: Upload, error: unknown): void {
    const { versionId, transfer } = upload.want;
    this.options.log.error("upload-failed", { versionId, transfer, text: messageOf(error) });
    if (this.#running.get(transfer) === upload) this.#running.delete(transfer);
    upload.stream?.remove?.().catch(() => undefined);
  }

  /** False when the transfer is not known here (a restart): the version is then announced again. */
  onRequest(request: BlockRequest): boolean {
    const upload = this.#running.get(request.transfer);
    if (upload?.sender === undefined) {
      if (upload !== undefined) upload.early = request;
    } else upload.sender.onRequest(request);
    return upload !== undefined;
  }

  async end(transfer: string): Promise<void> {
    const upload = this.#running.get(transfer);
    this.#running.delete(transfer);
    if (upload === undefined) return;
    upload.abort.abort();
    const { sender, progress, want } = upload;
    await sender?.stop();
    await upload.stream?.remove?.();
    if (progress.sentBytes >= minMeasuredBytes && progress.lastMs > progress.firstMs)
      this.#seenBytesPerSecond = (1000 * progress.sentBytes) / (progress.lastMs - progress.firstMs);
    this.options.log.debug("upload-ended", {
      versionId: want.versionId,
      transfer,
      sentBytes: progress.sentBytes,
      byteLength: sender?.machine.shape.byteLength ?? 0,
    });
  }

  /** The server has the complete version: ends its transfers. */
  async endVersion(versionId: Hash): Promise<void> {
    for (const [transfer, upload] of [...this.#running])
      if (upload.want.versionId === versionId) await this.end(transfer);
  }

  reconnected(): void {
    for (const { sender } of this.#running.values()) sender?.reconnected();
  }

  /** Ends all transfers; resolves when nothing is sent or coded any more. */
  async stop(): Promise<void> {
    for (const transfer of [...this.#running.keys()]) await this.end(transfer);
    await Promise.all(this.#preparing);
  }

  async #streamObject(ref: ObjectRef): Promise<StreamObject> {
    const { objects } = this.options;
    const { kind, id } = ref;
    // Not verified here: the receiver hashes every block and every tensor.
    if (kind === "tensor") return objects.openTensor(id, { verify: false });
    if (streamedKinds.some((one) => one === kind)) return storedStreamObject(objects.openStream(kind, id));
    return streamObjectOfBytes(await objects.read(kind, id));
  }
}

/**
 * True if a want asks for the transfer that is under way: the same objects on the same terms, and a stream of
 * the same length.
 */
function answers({ want, sender }: Upload, asked: Want): boolean {
  const terms = (one: Want): string =>
    JSON.stringify([
      one.reason,
      one.versionId,
      one.blockBytes,
      one.objects,
      one.tensorIndices,
      one.codec ?? 0,
      one.references ?? [],
      one.ownReferences ?? false,
      one.optimizerReference,
    ]);
  return (
    terms(want) === terms(asked) &&
    (asked.streamBytes === undefined ||
      sender === undefined ||
      asked.streamBytes === sender.machine.shape.byteLength)
  );
}

/**
 * The objects of a complete want, in the order of the stream, and whether the receiver knows their sizes.
 * @throws OBJECT_MISSING, ENVELOPE_MALFORMED for an index outside the tree
 */
async function refsOfWant(
  objects: ObjectReader,
  want: Want,
): Promise<{ readonly refs: readonly ObjectRef[]; readonly areSizesKnown: boolean }> {
  if (want.tensorIndices.length === 0)
    return {
      refs: want.objects,
      areSizesKnown: want.objects.every(({ id, byteLength }) => objects.stat(id)?.byteLength === byteLength),
    };
  const record = decodeSaveRecord(await objects.read("record", want.versionId));
  const leaves = (await readTrees(objects, record)).flatMap((tree) => tree.leaves);
  const tensors = want.tensorIndices.map((index): ObjectRef => {
    const leaf = leaves[index];
    if (leaf === undefined)
      throw new StemmaError(
        "ENVELOPE_MALFORMED",
        `The server wants tensor ${index} of a model whose trees have ${leaves.length}. It is ignored.`,
        { index },
      );
    return { kind: "tensor", id: leaf.tensor, byteLength: objects.stat(leaf.tensor)?.byteLength ?? 0 };
  });
  return {
    refs: [...tensors, ...want.objects],
    areSizesKnown: want.objects.every(({ id, byteLength }) => objects.stat(id)?.byteLength === byteLength),
  };
}
