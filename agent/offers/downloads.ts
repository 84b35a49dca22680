/**
 * Fetches what an offered version lacks: block by block into a file of the agent's home, resumed
 * after a lost connection or a restart. Knows no models, only streams of objects.
 */
import { defined } from "../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Clock, Files } from "../../shared/ports.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { minBlockBytes } from "../../shared/wire/limits.js";
import {
  checkEncoding,
  maxEncodedBytes,
  rawOnly,
  type AllowedCoding,
} from "../../shared/wire/coding/encodings.js";
import type {
  Block,
  BlockRequest,
  CodingTerms,
  Encoding,
  Fetch,
  ManifestPart,
  ObjectRef,
  TransferDone,
} from "../../shared/wire/messages.js";
import type { ReceiverOptions, ReceiverState } from "../../shared/wire/transfer/receiver.js";
import {
  runReceiver,
  slowLinkBudget,
  type ReceiverPorts,
  type RunningReceiver,
} from "../../shared/wire/transfer/run-receiver.js";
import type { ReadRange } from "../../shared/wire/transfer/stream.js";
import { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import { DownloadFile } from "./download-file.js";
import { downloadInterrupted } from "./offer-errors.js";

export interface DownloadsOptions {
  readonly files: Files;
  readonly folder: string;
  readonly clock: Clock;
  readonly blockBytes: number;
  readonly window: number;
  /** False when no session is open: the message is sent again when one is. */
  send(body: Fetch | BlockRequest | TransferDone): boolean;
}

/**
 * A complete stream: the requested objects one after the other. Every block matches its manifest; the ids are
 * not checked yet.
 */
export interface Download {
  readonly refs: readonly ObjectRef[];
  /** One per object, or none where all is raw. */
  readonly encodings: readonly Encoding[];
  readonly read: ReadRange;
  done(): Promise<void>;
}

/** The terms for coding a download: versions that this device holds completely, and their tensors. */
export interface DownloadTerms {
  /** Format of tensor coding to ask for. */
  readonly codec: number;
  readonly references: readonly Hash[];
  readonly tensors: ReadonlySet<Hash>;
}

interface Running {
  readonly receiver: RunningReceiver;
  readonly fetches: () => readonly Fetch[];
  readonly cancel: (error: StemmaError) => void;
}

/** Objects in one fetch: 32 bytes each and their headers stay far below the limit of a message. */
const refsPerFetch = 1000;

/**
 * The id of a transfer: the same objects requested on the same terms have the same id, also after a restart.
 */
export function transferOf(
  versionId: Hash,
  refs: readonly ObjectRef[],
  blockBytes: number,
  terms?: DownloadTerms,
): string {
  const coding = terms === undefined ? "" : ` coded ${terms.codec} ${terms.references.join(" ")}`;
  return sha256(
    `stemma-fetch ${versionId} ${blockBytes} ${refs.map(({ kind, id }) => `${kind}:${id}`).join(" ")}${coding}`,
  ).slice(0, 32);
}

/** Codes after which the blocks received so far cannot be used: the stream is another one, or malformed. */
const uselessCodes = new Set(["TRANSFER_MANIFEST_INVALID", "DELTA_CODE_UNKNOWN", "BLOCK_HASH_MISMATCH"]);

export class Downloads {
  readonly #running = new Map<string, Running>();
  readonly #budget: WindowBudget;
  readonly #slowBudget: WindowBudget;

  constructor(private readonly options: DownloadsOptions) {
    this.#budget = new WindowBudget(options.blockBytes * options.window);
    this.#slowBudget = slowLinkBudget(options.blockBytes);
  }

  /**
   * Fetches these objects of a version; resolves when all their blocks are here.
   * @param maxUnknownBytes upper bound for all objects of unknown size together
   * @param terms what tensors may be coded against; absent: everything comes raw
   * @throws the receiver's typed errors; DISK_FULL
   */
  async fetch(
    versionId: Hash,
    refs: readonly ObjectRef[],
    maxUnknownBytes: number,
    terms?: DownloadTerms,
  ): Promise<Download> {
    const { clock, files, folder, blockBytes } = this.options;
    const transfer = transferOf(versionId, refs, blockBytes, terms);
    const file = await DownloadFile.open(files, folder, transfer);
    const receiver: RunningReceiver = startReceiver(
      this.#receiverOptions(transfer, refs, maxUnknownBytes, terms),
      {
        clock,
        budget: this.#budget,
        slowBudget: this.#slowBudget,
        send: (message) => {
          this.options.send(message);
        },
        write: (position, bytes) => file.write(position, bytes, () => receiver.machine.state()),
      },
      file.savedState,
    );
    const fetches = (): readonly Fetch[] =>
      fetchesOf(
        { versionId, transfer, blockBytes },
        refs,
        codingTerms(terms, receiver.machine.progress.byteLength),
      );
    try {
      const encodings = await this.#finish(transfer, receiver, fetches);
      return {
        refs: sized(refs, encodings),
        encodings,
        read: (position, byteLength) => file.read(position, byteLength),
        done: async () => {
          this.options.send({ type: "transferDone", transfer });
          await file.close();
          await file.remove();
        },
      };
    } catch (error) {
      receiver.stop();
      await file.close();
      if (isStemmaError(error) && uselessCodes.has(error.code)) await file.remove();
      throw error;
    } finally {
      this.#running.delete(transfer);
    }
  }

  /** Returns what a receiver accepts of this download, before anything is allocated for it. */
  #receiverOptions(
    transfer: string,
    refs: readonly ObjectRef[],
    maxUnknownBytes: number,
    terms: DownloadTerms | undefined,
  ): ReceiverOptions {
    const { blockBytes, window } = this.options;
    const rawBytes = refs.reduce((sum, ref) => sum + ref.byteLength, 0);
    const allowed: AllowedCoding =
      terms === undefined ? rawOnly : { codec: terms.codec, tensors: terms.tensors };
    return {
      transfer,
      window,
      objects: refs.length,
      rawBytes,
      maxBytes: Math.max(maxEncodedBytes(rawBytes), maxUnknownBytes),
      maxBlockBytes: Math.max(blockBytes, minBlockBytes),
      checkEncoding: (encoding, index) => {
        const ref = refs[index];
        if (ref?.kind === "tensor") checkEncoding(encoding, index, ref.byteLength, allowed);
        else checkEncoding(encoding, index, encoding.byteLength, rawOnly);
      },
    };
  }

  onManifest(part: ManifestPart): void {
    this.#running.get(part.transfer)?.receiver.onManifest(part);
  }
  onBlock(transfer: string, block: Block): void {
    this.#running.get(transfer)?.receiver.onBlock(block);
  }
  /** The server refuses to serve this transfer. Returns whether it is under way here. */
  onRefused(transfer: string, error: StemmaError): boolean {
    const running = this.#running.get(transfer);
    running?.cancel(error);
    return running !== undefined;
  }

  /** A session is open: sends the fetches again, then continues. */
  reconnected(): void {
    for (const { receiver, fetches } of this.#running.values()) {
      for (const fetch of fetches()) this.options.send(fetch);
      receiver.reconnected();
    }
  }

  stop(): void {
    for (const { cancel } of [...this.#running.values()]) cancel(downloadInterrupted());
  }

  get count(): number {
    return this.#running.size;
  }

  #finish(
    transfer: string,
    receiver: RunningReceiver,
    fetches: () => readonly Fetch[],
  ): Promise<readonly Encoding[]> {
    return new Promise((resolve, reject) => {
      this.#running.set(transfer, { receiver, fetches, cancel: reject });
      for (const fetch of fetches()) this.options.send(fetch);
      receiver.finished.then(resolve, reject);
    });
  }
}

function codingTerms(terms: DownloadTerms | undefined, streamBytes: number | undefined): CodingTerms {
  return terms === undefined
    ? {}
    : { codec: terms.codec, references: terms.references, ...defined({ streamBytes }) };
}

/** The fetch for a list of objects, in as many messages as it needs. */
function fetchesOf(
  header: Pick<Fetch, "versionId" | "transfer" | "blockBytes">,
  refs: readonly ObjectRef[],
  coding: CodingTerms,
): readonly Fetch[] {
  const parts = Math.max(1, Math.ceil(refs.length / refsPerFetch));
  return Array.from({ length: parts }, (_, part): Fetch => ({
    type: "fetch",
    ...header,
    objects: refs.slice(part * refsPerFetch, (part + 1) * refsPerFetch),
    part,
    parts,
    ...coding,
  }));
}

/** The objects with their sizes: of small objects as the encodings state them, of tensors when decoded. */
function sized(refs: readonly ObjectRef[], encodings: readonly Encoding[]): readonly ObjectRef[] {
  return refs.map((ref, index) =>
    ref.kind === "tensor" ? ref : { ...ref, byteLength: encodings[index]?.byteLength ?? ref.byteLength },
  );
}

/** Continues from the saved state, or starts from the beginning where that state does not fit. */
function startReceiver(
  options: ReceiverOptions,
  ports: ReceiverPorts,
  state: ReceiverState | undefined,
): RunningReceiver {
  try {
    return runReceiver(options, ports, state);
  } catch (error) {
    if (state === undefined) throw error;
    return runReceiver(options, ports);
  }
}
