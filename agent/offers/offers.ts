/**
 * Brings offered models into this device's outbox: checks the offer against the pinned key, fetches the
 * missing parts, verifies and stores them. The caller activates them, except staged ones.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { defined } from "../../shared/defined.js";
import { isStemmaError } from "../../shared/errors.js";
import type { LeafTable, ObjectKind, SaveRecord } from "../../shared/model/model.js";
import { layoutIdOf } from "../../shared/layouts/base-layout.js";
import { originalBytesOf } from "../../shared/layouts/slot-files.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { Clock, Log } from "../../shared/ports.js";
import { maxPipelineBytes } from "../../shared/provenance/pipeline-file-name.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import { objectId } from "../../shared/tensor/hash.js";
import { sourceOfTensor, tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import type { WitnessPolicy } from "../../shared/trust/checkpoint.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { decideDownloadCoding, prefersLowRank } from "../../shared/wire/coding/decide-coding.js";
import { decodeCoded } from "../../shared/wire/coding/decode-coded.js";
import { codecFormat, firstCodecFormat } from "../../shared/wire/coding/encodings.js";
import { openTensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { ObjectRef, Offer } from "../../shared/wire/messages.js";
import { objectsOfStream } from "../../shared/wire/transfer/stream.js";
import { judgeDisk, type DiskUse, noDiskFor } from "../resources/disk-budget.js";
import type { Outbox } from "../outbox/outbox.js";
import { readVersion } from "../outbox/read-version.js";
import type { ReleaseTrust } from "../releases/release-trust.js";
import type { Profile } from "../settings/profile.js";
import type { Download, Downloads, DownloadTerms } from "./downloads.js";
import {
  checkOffer,
  lackingObjects,
  neededObjects,
  lackingTensors,
  leavesOfOffer,
  type OfferExtras,
  type SmallObjects,
} from "./offer-check.js";
import { requireCosigned } from "./cosigned-offer.js";
import { offeredNotStored, pipelineTooLong, tensorNotAsked } from "./offer-errors.js";
import { sharedVersions } from "./shared-versions.js";

export interface OffersOptions {
  readonly enrolment: Enrolment;
  readonly outbox: Outbox;
  readonly downloads: Downloads;
  readonly profile: Profile;
  readonly clock: Clock;
  readonly log: Log;
  readonly diskUse: () => Promise<DiskUse>;
  /** True if trainings of the line go on from the optimizer's state of their base, which is then fetched, too. */
  readonly resumesOptimizer: (line: string) => boolean;
  readonly releases: Pick<ReleaseTrust, "requireOffered">;
  /** The witnesses that must have cosigned the journal with an offered version; undefined: none. */
  readonly witnesses?: WitnessPolicy | undefined;
}

/**
 * Max milliseconds that the tensors which a running download may be coded against are protected from
 * deletion; at most until the agent stops, since leases are kept in memory.
 */
const leaseMs = 24 * 3_600_000;
/** Errors of a coded download after which the tensors are fetched raw. */
const notDecodable = new Set([
  "DELTA_MALFORMED",
  "DELTA_REFERENCE_MISSING",
  "DELTA_CODE_UNKNOWN",
  "OBJECT_MISSING",
  "OBJECT_HASH_MISMATCH",
  "TRANSFER_MANIFEST_INVALID",
]);
/** Upper bound for the small objects of one offer together. */
const maxSmallBytes = 64 * 1024 * 1024;

/** An offer that was checked, with what of it is fetched. */
interface CheckedOffer extends OfferExtras {
  readonly offer: Offer;
  readonly record: SaveRecord;
  readonly carried: SmallObjects;
}

/** An offered version whose leaves are known and checked. */
interface OfferedVersion {
  readonly offer: Offer;
  /** The leaves of the model, and of the optimizer's state where it is fetched. */
  readonly leaves: LeafTable;
  /** The small objects of the version that are not in the store. */
  readonly carried: SmallObjects;
  readonly pipeline: Hash | undefined;
  /** The small objects of the version. */
  readonly needed: readonly Hash[];
  /** Bytes of all its tensors. */
  readonly tensorBytes: number;
}

export class Offers {
  readonly #taking = new Map<string, Promise<void>>();
  readonly #queue = new SerialQueue();
  /** Offers whose journal is cosigned. Their proof is from the head of their time, so each is checked once. */
  readonly #cosigned = new WeakSet<Offer>();
  constructor(private readonly options: OffersOptions) {}

  /**
   * Brings an offered version into the outbox; resolves when it is there. The same offer, received again
   * meanwhile, waits for the running one.
   * @throws COSIGNATURES_MISSING, CHECKPOINT_INVALID, HISTORY_UNPROVEN where witnesses are pinned;
   * SIGNATURE_INVALID and the other errors of checkOffer; DISK_BUDGET_EXHAUSTED; the errors of the
   * transfer
   */
  async take(offer: Offer): Promise<void> {
    const key = `${offer.line} ${offer.versionId} ${offer.staged === true ? "staged" : ""}`;
    const running = this.#taking.get(key);
    if (running !== undefined) return await running;
    this.#requireCosigned(offer);
    // Serially: two lines that are offered the same model fetch it once.
    const taking = this.#queue
      .run(() => this.#take(offer))
      .finally(() => {
        this.#taking.delete(key);
      });
    this.#taking.set(key, taking);
    await taking;
  }

  /** Requires it at once: a later receipt moves the head that the proof is from. A version of its own needs none. */
  #requireCosigned(offer: Offer): void {
    const { witnesses, outbox } = this.options;
    if (witnesses === undefined || this.#cosigned.has(offer)) return;
    if (outbox.entry(offer.versionId)?.origin === "trained") return;
    requireCosigned(witnesses, outbox.state.seen, offer);
    this.#cosigned.add(offer);
  }

  async #take(offer: Offer): Promise<void> {
    const { enrolment, outbox, log } = this.options;
    const { record, carried } = checkOffer(offer, enrolment);
    const known = outbox.entry(offer.versionId);
    const { versionId } = offer;
    const pipeline = await this.options.releases.requireOffered(
      { versionId, isOwn: known?.origin === "trained" },
      record,
      offer,
    );
    if (pipeline !== undefined) carryPipeline(carried, pipeline, offer);
    if (known?.lines.includes(offer.line) === true && (await this.#isComplete(versionId))) return;
    log.info("offered", {
      line: offer.line,
      versionId: offer.versionId,
      name: `${offer.name}:${offer.version}`,
      text: `the server offers ${offer.name}:${offer.version} to ${offer.line}`,
    });
    const optimizer = this.options.resumesOptimizer(offer.line) ? record.uses?.optimizer : undefined;
    const needed = neededObjects(record, { optimizer, pipeline });
    // What is here already stays until the offered version needs it, whatever is forgotten meanwhile.
    const lease = outbox.objects.lease(needed, leaseMs);
    try {
      await this.#fetch({ offer, record, carried, optimizer, pipeline }, needed);
    } finally {
      outbox.objects.release(lease.id);
    }
  }

  /** True if the tensors of a version that is known here are here, too. */
  async #isComplete(versionId: Hash): Promise<boolean> {
    const { objects } = this.options.outbox;
    const version = await readVersion(objects, versionId);
    return version?.leaves.every(({ tensor }) => objects.has(tensor)) === true;
  }

  async #fetch(
    { offer, record, carried, optimizer, pipeline }: CheckedOffer,
    objects: readonly Hash[],
  ): Promise<void> {
    const { profile, log } = this.options;
    await this.#fetchObjects(offer, record, carried, { optimizer, pipeline });
    if (pipeline !== undefined) await this.#requireShortPipeline(carried, pipeline);
    const model = await leavesOfOffer(record, (kind, id) => this.#readSmall(carried, kind, id));
    const state =
      optimizer === undefined ? [] : decodeTree(await this.#readSmall(carried, "tree", optimizer)).leaves;
    const leaves = [...model, ...state];
    const bytes = leaves.reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
    // The model needs space twice, in the outbox and installed, and once more in the layout that it came in.
    const needed = 2 * bytes + (await this.#originalBytes(record, model, carried));
    const verdict = judgeDisk(profile.disk, await this.options.diskUse(), "install", needed);
    if (!verdict.allowed)
      throw noDiskFor(
        `The offered model ${offer.name}:${offer.version} does not fit`,
        verdict,
        "It is fetched when the server offers it again.",
        { versionId: offer.versionId },
      );
    await this.#fetchTensors(
      { offer, leaves, carried, pipeline, needed: objects, tensorBytes: bytes },
      record,
    );
    log.info("fetched", {
      line: offer.line,
      versionId: offer.versionId,
      bytes,
      text: `${offer.name}:${offer.version} is complete on this device`,
    });
  }

  async #fetchObjects(
    offer: Offer,
    record: SaveRecord,
    carried: SmallObjects,
    extras: OfferExtras,
  ): Promise<void> {
    const refs = lackingObjects(record, this.options.outbox.objects, carried, extras);
    if (refs.length === 0) return;
    const download = await this.options.downloads.fetch(offer.versionId, refs, maxSmallBytes);
    try {
      for await (const object of objectsOfStream(download.refs, noTensors, download.read))
        if (object.kind === "object")
          carried.set(object.ref.id, { kind: object.ref.kind as ObjectKind, bytes: object.bytes });
    } finally {
      await download.done();
    }
  }

  async #fetchTensors(offered: OfferedVersion, record: SaveRecord): Promise<void> {
    const { outbox, downloads, profile } = this.options;
    const { offer, leaves } = offered;
    const own = outbox.objects.lease(
      leaves.map(({ tensor }) => tensor),
      leaseMs,
    );
    const refs = lackingTensors(leaves, outbox.objects);
    const shared = await sharedVersions(outbox, offer.line, record);
    const lease = outbox.objects.lease(shared.tensors, leaseMs);
    try {
      const decision = decideDownloadCoding(
        profile.link,
        refs.reduce((sum, { byteLength }) => sum + byteLength, 0),
        refs.length,
        shared.references.length > 0,
      );
      const codec = prefersLowRank(profile.link) ? codecFormat : firstCodecFormat;
      if (refs.length > 0 && decision.coded && (await this.#tryCoded(offered, refs, { ...shared, codec })))
        return;
      const download = refs.length === 0 ? undefined : await downloads.fetch(offer.versionId, refs, 0);
      await this.#keep(offered, download);
    } finally {
      outbox.objects.release(lease.id);
      outbox.objects.release(own.id);
    }
  }

  /** False where the stream cannot be decoded here: then the tensors are fetched raw. */
  async #tryCoded(
    offered: OfferedVersion,
    refs: readonly ObjectRef[],
    terms: DownloadTerms,
  ): Promise<boolean> {
    const { offer } = offered;
    try {
      await this.#keep(offered, await this.options.downloads.fetch(offer.versionId, refs, 0, terms));
      return true;
    } catch (error) {
      if (!isStemmaError(error) || !notDecodable.has(error.code)) throw error;
      this.options.log.warn("download-not-decoded", {
        line: offer.line,
        versionId: offer.versionId,
        code: error.code,
        text: `${offer.name}:${offer.version} cannot be decoded: ${error.message} It is fetched raw.`,
      });
      return false;
    }
  }

  /**
   * Puts an offered version into the outbox.
   * @param download its missing tensors; undefined: none is missing
   */
  async #keep(
    { offer, leaves, carried, pipeline, needed, tensorBytes }: OfferedVersion,
    download: Download | undefined,
  ): Promise<void> {
    const { outbox, clock } = this.options;
    const headers = new Map(leaves.map((leaf) => [leaf.tensor, leaf]));
    if (download !== undefined)
      this.options.log.debug("downloaded", {
        line: offer.line,
        versionId: offer.versionId,
        bytes: (download.encodings.length > 0 ? download.encodings : download.refs).reduce(
          (sum, { byteLength }) => sum + byteLength,
          0,
        ),
        rawBytes: download.refs.reduce((sum, { byteLength }) => sum + byteLength, 0),
      });
    const coder = openTensorCoder(
      download?.encodings.some(({ code }) => code !== 0) === true ? tensorBytes : 0,
    );
    try {
      await outbox.adopt(
        {
          type: "adopted",
          atMs: Math.round(clock.now()),
          versionId: offer.versionId,
          line: offer.line,
          name: offer.name,
          version: offer.version,
          tensorBytes,
          ...(offer.staged === true ? { staged: true as const } : {}),
          ...defined({ pipeline }),
        },
        [...needed, ...leaves.map(({ tensor }) => tensor)],
        async (pack) => {
          for (const { kind, bytes } of carried.values()) await pack.put(kind, bytes);
          await pack.put("record", offer.record);
          if (download === undefined) return;
          // The pack hashes what it writes and refuses a tensor with another id.
          const objects = objectsOfStream(
            download.refs,
            (id) => headers.get(id) ?? noTensors(),
            download.read,
            { verifyTensors: false, encodings: download.encodings },
          );
          const load = (id: Hash): Promise<Tensor> => tensorOfSource(outbox.objects.openTensor(id));
          for await (const object of objects) {
            if (object.kind === "tensor") await pack.putTensor(object.source, object.ref.id);
            // Stored decoded: a coded copy would keep its references on a disk that is to forget them.
            if (object.kind === "coded")
              await pack.putTensor(
                sourceOfTensor({ ...object.header, bytes: await decodeCoded(load, coder, object) }),
                object.ref.id,
              );
          }
        },
      );
    } catch (error) {
      if (isStemmaError(error)) throw error;
      throw offeredNotStored(offer, error);
    } finally {
      await coder.close();
      await download?.done();
    }
  }

  /** @throws SIZE_OVER_LIMIT */
  async #requireShortPipeline(carried: SmallObjects, pipeline: Hash): Promise<void> {
    const { length } = await this.#readSmall(carried, "pipeline", pipeline);
    if (length > maxPipelineBytes) throw pipelineTooLong(length, maxPipelineBytes, pipeline);
  }

  async #originalBytes(record: SaveRecord, weights: LeafTable, carried: SmallObjects): Promise<number> {
    const id = layoutIdOf(record);
    if (id === undefined || record.kind === "opaque") return 0;
    return originalBytesOf(weights, await this.#readSmall(carried, "attachment", id));
  }

  #readSmall(carried: SmallObjects, kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    const held = carried.get(id);
    return held?.kind === kind ? Promise.resolve(held.bytes) : this.options.outbox.objects.read(kind, id);
  }
}

/** An offer that brings another one's bytes brings none: the pipeline is fetched. */
function carryPipeline(carried: SmallObjects, id: Hash, { pipeline }: Offer): void {
  const bytes = pipeline?.data;
  if (bytes !== undefined && objectId("pipeline", bytes) === id) carried.set(id, { kind: "pipeline", bytes });
}

function noTensors(): never {
  throw tensorNotAsked();
}
