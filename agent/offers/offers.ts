/**
 * Models from the server, from offer to a version of this device's outbox: checked against the pinned
 * key, fetched as far as lacking, verified, kept. Activation is the caller's.
 */
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { LeafTable, ObjectKind } from "../../shared/model/model.js";
import type { Clock, Log } from "../../shared/ports.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { Offer } from "../../shared/wire/messages.js";
import { objectsOfStream } from "../../shared/wire/transfer/stream.js";
import { judgeDisk, type DiskUse } from "../budget.js";
import type { Outbox } from "../outbox/outbox.js";
import type { Profile } from "../profile.js";
import type { Downloads } from "./downloads.js";
import { checkOffer, lackingObjects, lackingTensors, leavesOfOffer, type SmallObjects } from "./offer-check.js";

export interface OffersOptions {
  readonly enrolment: Enrolment;
  readonly outbox: Outbox;
  readonly downloads: Downloads;
  readonly profile: Profile;
  readonly clock: Clock;
  readonly log: Log;
  readonly diskUse: () => Promise<DiskUse>;
}

/** Most that the small objects of one offer may take. */
const maxSmallBytes = 64 * 1024 * 1024;

export class Offers {
  readonly #taking = new Map<string, Promise<void>>();
  #last: Promise<unknown> = Promise.resolve();
  constructor(private readonly options: OffersOptions) {}

  /**
   * Brings an offered version into the outbox; resolves when it is there. The same offer again while
   * it is being fetched waits for the same.
   * @throws SIGNATURE_INVALID and the other errors of checkOffer; DISK_BUDGET_EXHAUSTED; the transfer's errors
   */
  take(offer: Offer): Promise<void> {
    const key = `${offer.line} ${offer.versionId}`;
    const running = this.#taking.get(key);
    if (running !== undefined) return running;
    // One after the other: two lines given the same model fetch it once.
    const taking = this.#last.then(() => this.#take(offer)).finally(() => { this.#taking.delete(key); });
    this.#last = taking.catch(() => undefined);
    this.#taking.set(key, taking);
    return taking;
  }

  async #take(offer: Offer): Promise<void> {
    const { enrolment, outbox, profile, log } = this.options;
    const { record, carried } = checkOffer(offer, enrolment);
    const known = outbox.entry(offer.versionId);
    if (known?.forgotten === false && known.lines.includes(offer.line)) return;
    log.info("offered", { line: offer.line, version: offer.versionId, name: `${offer.name}:${offer.version}`, text: `the server offers ${offer.name}:${offer.version} to ${offer.line}` });
    await this.#fetchObjects(offer, record, carried);
    const leaves = await leavesOfOffer(record, (kind, id) => this.#readSmall(carried, kind, id));
    const bytes = leaves.reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
    // Kept in the outbox and installed: twice.
    const verdict = judgeDisk(profile.disk, await this.options.diskUse(), "install", 2 * bytes);
    if (!verdict.allowed) throw new StemmaError("DISK_BUDGET_EXHAUSTED", `The offered model ${offer.name}:${offer.version} does not fit: ${verdict.reason}. Free some space or raise the profile's disk budget.`, { versionId: offer.versionId });
    await this.#fetchTensors(offer, leaves, carried, bytes);
    log.info("fetched", { line: offer.line, version: offer.versionId, bytes, text: `${offer.name}:${offer.version} is here, whole` });
  }

  async #fetchObjects(offer: Offer, record: Parameters<typeof lackingObjects>[0], carried: SmallObjects): Promise<void> {
    const refs = lackingObjects(record, this.options.outbox.objects, carried);
    if (refs.length === 0) return;
    const download = await this.options.downloads.fetch(offer.versionId, refs, maxSmallBytes);
    try {
      for await (const object of objectsOfStream(download.refs, noTensors, download.read)) if (object.kind === "object") carried.set(object.ref.id, { kind: object.ref.kind as ObjectKind, bytes: object.bytes });
    } finally {
      await download.done();
    }
  }

  async #fetchTensors(offer: Offer, leaves: LeafTable, carried: SmallObjects, tensorBytes: number): Promise<void> {
    const { outbox, downloads, clock } = this.options;
    const refs = lackingTensors(leaves, outbox.objects);
    const download = refs.length === 0 ? undefined : await downloads.fetch(offer.versionId, refs, 0);
    const headers = new Map(leaves.map((leaf) => [leaf.tensor, leaf]));
    try {
      await outbox.adopt({ type: "adopted", atMs: Math.round(clock.now()), versionId: offer.versionId, line: offer.line, name: offer.name, version: offer.version, tensorBytes }, async (pack) => {
        for (const { kind, bytes } of carried.values()) await pack.put(kind, bytes);
        await pack.put("record", offer.record);
        if (download === undefined) return;
        // The pack hashes what it writes and refuses another tensor than the one named.
        const objects = objectsOfStream(download.refs, (id) => headers.get(id) ?? noTensors(), download.read, { verifyTensors: false });
        for await (const object of objects) if (object.kind === "tensor") await pack.putTensor(object.source, object.ref.id);
      });
    } catch (error) {
      if (isStemmaError(error)) throw error;
      throw new StemmaError("STORE_FAILED", `The offered model ${offer.name}:${offer.version} could not be kept: ${(error as Error).message}. It is fetched again when the server offers it again.`, { cause: error });
    } finally {
      await download?.done();
    }
  }

  #readSmall(carried: SmallObjects, kind: ObjectKind, id: Hash): Promise<Uint8Array> {
    const held = carried.get(id);
    return held === undefined ? this.options.outbox.objects.read(kind, id) : Promise.resolve(held.bytes);
  }
}

function noTensors(): never { throw new StemmaError("TRANSFER_MANIFEST_INVALID", "A stream holds a tensor that was not asked for. The transfer is dropped."); }
