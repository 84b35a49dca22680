/**
 * Server models on their way to devices: what is assigned to a line is offered, signed, until the
 * device runs it; what the device asks for of it is served as blocks, by version and only to who may
 * have it, since knowing a hash is not possession (DESIGN, "Trust").
 */
import { StemmaError, isStemmaError } from "../../shared/errors.js";
import type { Clock } from "../../shared/ports.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { ObjectKind } from "../../shared/model/model.js";
import { signOffer } from "../../shared/trust/signatures.js";
import type { BlockRequest, Encoding, Fetch, ObjectRef, SmallObject } from "../../shared/wire/messages.js";
import { runSender, type RunningSender } from "../../shared/wire/transfer/run-sender.js";
import { boundedBlockBytes } from "../../shared/wire/transfer/manifest.js";
import { streamObjectOfBytes, type StreamObject } from "../../shared/wire/transfer/stream.js";
import type { ServerSigner } from "../repository/home.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { CodedOutflow, CodedOutflows } from "./coded-outflows.js";
import { hasHad } from "./held-versions.js";
import type { IngestLimits } from "./limits.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";
import { fittingInline, type DeviceSender } from "./device-sender.js";

export interface OfferParts {
  readonly repository: FleetRepository;
  readonly signer: ServerSigner;
  readonly voice: DeviceSender;
  readonly clock: Clock;
  readonly limits: Pick<IngestLimits, "blockBytes" | "leaseMs">;
  readonly coded: CodedOutflows;
  offered(device: string, line: string, versionId: Hash): void;
}

interface Outflow {
  readonly device: string;
  readonly transfer: string;
  readonly sender: RunningSender;
  readonly leaseId: string;
  readonly coded: CodedOutflow | undefined;
}
interface FetchList {
  readonly parts: (readonly ObjectRef[] | undefined)[];
}

/**
 * How long a request for blocks waits for the fetch it belongs to, which it may have overtaken; and how many
 * wait.
 */
const earlyMs = 5_000;
const maxEarly = 1024;
/** Most streams that one device draws at a time, and parts of one list. */
const outflowsPerDevice = 8;
const maxFetchParts = 64;

/** Devices of one profile that lack the same have the same transfer: a stream is a device's own. */
const outflowKey = (device: string, transfer: string): string => `${device}\0${transfer}`;

export class Offers {
  /** Streams on their way, by device and transfer. */
  readonly #outflows = new Map<string, Outflow>();
  readonly #lists = new Map<string, FetchList>();
  /** Streams that are being coded, with the newest request that came meanwhile. */
  readonly #preparing = new Map<string, { readonly device: string; request: BlockRequest | undefined }>();
  /** Requests that came before their fetch. */
  readonly #early = new Map<
    string,
    { readonly device: string; readonly request: BlockRequest; cancel(): void }
  >();
  /**
   * Assignments of this process that no activation has answered yet, by device and line: a version given
   * again counts even where the line has built on it since.
   */
  readonly #given = new Map<string, Hash>();
  constructor(private readonly parts: OfferParts) {}

  /** A version was assigned just now. */
  given(device: string, line: string, versionId: Hash): void {
    this.#given.set(`${device}\0${line}`, versionId);
  }
  /** The device runs this version now. */
  activated(device: string, line: string, versionId: Hash): void {
    if (this.#given.get(`${device}\0${line}`) === versionId) this.#given.delete(`${device}\0${line}`);
  }

  /**
   * Offers what is assigned to the device's lines and neither runs there nor is behind what runs. @param
   * reported active versions that the device itself named in its birth
   */
  async offerAll(device: string, reported: readonly Hash[] = []): Promise<void> {
    const { repository } = this.parts;
    const known = repository.device(device);
    if (known === undefined) return;
    for (const line of known.lines) {
      const assigned = repository.assignment(device, line);
      if (assigned === undefined) continue;
      const active = [known.active[line]?.versionId, ...reported].filter((id) => id !== undefined);
      const isNew = this.#given.get(`${device}\0${line}`) === assigned;
      const has =
        active.some((id) => id === assigned) ||
        (!isNew &&
          active.some(
            (id) =>
              repository.get(id) !== undefined &&
              repository.lineage(id).some(({ versionId }) => versionId === assigned),
          ));
      const summary = repository.get(assigned);
      if (!has && summary !== undefined && summary.state !== "retired")
        await this.#offer(device, line, summary);
    }
  }

  async #offer(device: string, line: string, summary: VersionSummary): Promise<void> {
    const { repository, signer, voice } = this.parts;
    const { versionId, name, version } = summary;
    const record = await repository.objects.read("record", versionId);
    const objects: SmallObject[] = [];
    for (const { kind, id } of smallObjectsOf(summary.record)) {
      const stat = repository.objects.stat(id);
      if (stat !== undefined && stat.byteLength <= 16 * 1024)
        objects.push({ kind, data: await repository.objects.read(kind, id) });
    }
    const signature = signOffer(signer, { fleet: repository.fleet, device, line, versionId });
    await voice.say(device, {
      type: "offer",
      line,
      versionId,
      record,
      objects: fittingInline(objects, record.length),
      signature,
      name,
      version,
    });
    this.parts.offered(device, line, versionId);
  }

  /**
   * A (part of a) list of what a device lacks; answers with the manifest and blocks it then asks for. @throws
   * nothing: refusals go to the device
   */
  async fetch(device: string, fetch: Fetch, correlation: string): Promise<void> {
    const { voice } = this.parts;
    try {
      const objects = this.#joined(device, fetch);
      if (objects !== undefined) await this.#begin(device, fetch, objects);
    } catch (error) {
      const known = isStemmaError(error)
        ? error
        : new StemmaError(
            "INTERNAL",
            "The server failed inside while preparing a model for the device. Its log names the cause.",
            { cause: error },
          );
      await voice.refuse(
        device,
        { code: known.code, message: known.message, versionId: fetch.versionId, transfer: fetch.transfer },
        correlation,
      );
    }
  }

  #joined(device: string, fetch: Fetch): readonly ObjectRef[] | undefined {
    const parts = Math.max(1, fetch.parts);
    if (parts > maxFetchParts || fetch.part >= parts)
      throw new StemmaError(
        "ANNOUNCE_INVALID",
        `A fetch has part ${fetch.part} of ${parts}; at most ${maxFetchParts} parts are allowed. Ask for less at a time.`,
      );
    if (parts === 1) return fetch.objects;
    const key = outflowKey(device, fetch.transfer);
    const list = this.#lists.get(key) ?? {
      parts: new Array<readonly ObjectRef[] | undefined>(parts).fill(undefined),
    };
    if (list.parts.length !== parts)
      throw new StemmaError(
        "ANNOUNCE_INVALID",
        "A fetch changed the number of its parts. Ask again with a new transfer.",
      );
    list.parts[fetch.part] = fetch.objects;
    if (list.parts.some((part) => part === undefined)) {
      if (this.#lists.size > 1024) this.#lists.delete(this.#lists.keys().next().value ?? "");
      this.#lists.set(key, list);
      return undefined;
    }
    this.#lists.delete(key);
    return list.parts.flatMap((part) => part ?? []);
  }

  async #begin(device: string, fetch: Fetch, refs: readonly ObjectRef[]): Promise<void> {
    const { repository } = this.parts,
      { versionId, transfer } = fetch;
    const key = outflowKey(device, transfer);
    // Asked for again while it is being coded: the answer is on its way.
    if (this.#preparing.has(key)) return;
    const present = this.#outflows.get(key);
    // The same list asked for again: the device came back, and its receiver goes on.
    if (present !== undefined) {
      present.sender.reconnected();
      await this.#stop(present);
    }
    if (
      [...this.#outflows.values(), ...this.#preparing.values()].filter((one) => one.device === device)
        .length >= outflowsPerDevice
    )
      throw new StemmaError(
        "QUOTA_EXCEEDED",
        `The device draws ${outflowsPerDevice} models already. Ask again when one is here.`,
      );
    const summary = repository.get(versionId);
    if (summary === undefined || !this.#mayHave(device, summary))
      throw new StemmaError(
        "NOT_ALLOWED",
        `The version ${versionId} is not given to ${device}. Assign it with \`stemma device assign\`.`,
        { versionId },
      );
    const early = this.#early.get(key)?.request;
    this.#forgetEarly(key);
    const preparing = { device, request: early };
    this.#preparing.set(key, preparing);
    try {
      const { objects, encodings, sized } = await this.#streamOf(summary, refs);
      const references = (fetch.references ?? []).filter((id) => hasHad(repository, device, id));
      const coded = await this.parts.coded.acquire(summary, { ...fetch, references }, sized);
      // The device went meanwhile, or asked for it anew.
      if (this.#preparing.get(key) !== preparing) {
        await coded?.release();
        return;
      }
      const sender = this.#send(device, fetch, refs, coded ?? { objects, encodings }, coded);
      if (preparing.request !== undefined) sender.onRequest(preparing.request);
    } finally {
      if (this.#preparing.get(key) === preparing) this.#preparing.delete(key);
    }
  }

  #send(
    device: string,
    { transfer, blockBytes }: Fetch,
    refs: readonly ObjectRef[],
    { objects, encodings }: Pick<CodedOutflow, "objects" | "encodings">,
    coded: CodedOutflow | undefined,
  ): RunningSender {
    const { repository, voice, clock, limits } = this.parts;
    const lease = repository.objects.lease(
      refs.map(({ id }) => id),
      limits.leaseMs,
    );
    const sender = runSender(
      {
        transfer,
        blockBytes: boundedBlockBytes(blockBytes === 0 ? limits.blockBytes : blockBytes, limits.blockBytes),
        encodings,
      },
      objects,
      {
        clock,
        send: (message) =>
          message.type === "block" ? voice.block(device, transfer, message) : voice.say(device, message),
        onFailed: (error) => {
          void this.#failed(device, transfer, error);
        },
      },
    );
    this.#outflows.set(outflowKey(device, transfer), { device, transfer, sender, leaseId: lease.id, coded });
    return sender;
  }

  #mayHave(device: string, summary: VersionSummary): boolean {
    const known = this.parts.repository.device(device);
    if (known?.state !== "enrolled") return false;
    return (
      summary.record.device === device ||
      known.lines.some((line) => this.parts.repository.assignment(device, line) === summary.versionId)
    );
  }

  /** Only what belongs to the version is served, under the sizes it has. */
  async #streamOf(
    summary: VersionSummary,
    refs: readonly ObjectRef[],
  ): Promise<{
    readonly objects: readonly StreamObject[];
    readonly encodings: readonly Encoding[];
    readonly sized: readonly ObjectRef[];
  }> {
    const { repository } = this.parts;
    const small = new Map<Hash, ObjectKind>([
      [summary.versionId, "record"],
      ...smallObjectsOf(summary.record).map(({ kind, id }) => [id, kind] as const),
    ]);
    const tensors = new Map((await repository.leaves(summary.versionId)).map((leaf) => [leaf.tensor, leaf]));
    const objects: StreamObject[] = [],
      encodings: Encoding[] = [];
    for (const { kind, id } of refs) {
      const leaf = tensors.get(id);
      const smallKind = small.get(id);
      if (kind === "tensor" && leaf !== undefined)
        objects.push({
          byteLength: tensorByteLength(leaf.dtype, leaf.shape),
          chunks: () => repository.objects.openTensor(id, { verify: false }).chunks(),
        });
      else if (smallKind !== undefined && smallKind === kind)
        objects.push(streamObjectOfBytes(await repository.objects.read(smallKind, id)));
      else
        throw new StemmaError(
          "NOT_ALLOWED",
          `The object ${id} is not part of the version ${summary.versionId}. Ask for what its tree and record name.`,
          { id },
        );
      encodings.push({ code: 0, byteLength: objects.at(-1)?.byteLength ?? 0 });
    }
    // Tensors' sizes are known to both; small objects' are told.
    return {
      objects,
      encodings: refs.every(({ kind }) => kind === "tensor") ? [] : encodings,
      sized: refs.map((ref, at) => ({ ...ref, byteLength: objects[at]?.byteLength ?? 0 })),
    };
  }

  /**
   * A request for blocks of one of the streams going to this device. One that overtook its fetch waits for it
   * a while.
   */
  request(device: string, request: BlockRequest): void {
    const { transfer } = request;
    const key = outflowKey(device, transfer);
    const outflow = this.#outflows.get(key);
    if (outflow !== undefined) {
      this.parts.repository.objects.renew(outflow.leaseId, this.parts.limits.leaseMs);
      outflow.sender.onRequest(request);
      return;
    }
    const preparing = this.#preparing.get(key);
    if (preparing !== undefined) {
      preparing.request = request;
      return;
    }
    if (this.#early.has(key)) return;
    if (this.#early.size >= maxEarly) this.#forgetEarly(this.#early.keys().next().value ?? "");
    const cancel = this.parts.clock.after(earlyMs, () => {
      this.#early.delete(key);
      void this.parts.voice.refuse(device, {
        code: "TRANSFER_UNKNOWN",
        message: "The server does not send this transfer (any more). Fetch the version again.",
        transfer,
      });
    });
    this.#early.set(key, { device, request, cancel });
  }
  #forgetEarly(key: string): void {
    this.#early.get(key)?.cancel();
    this.#early.delete(key);
  }
  async done(device: string, transfer: string): Promise<void> {
    const outflow = this.#outflows.get(outflowKey(device, transfer));
    if (outflow !== undefined) await this.#stop(outflow);
  }
  /** The device is gone, or the server stops. */
  async gone(device?: string): Promise<void> {
    for (const [key, early] of this.#early)
      if (device === undefined || early.device === device) this.#forgetEarly(key);
    for (const [key, preparing] of this.#preparing)
      if (device === undefined || preparing.device === device) this.#preparing.delete(key);
    for (const outflow of this.#outflows.values())
      if (device === undefined || outflow.device === device) await this.#stop(outflow);
  }

  async #failed(device: string, transfer: string, error: unknown): Promise<void> {
    const outflow = this.#outflows.get(outflowKey(device, transfer));
    const known = isStemmaError(error)
      ? error
      : new StemmaError(
          "INTERNAL",
          "The server failed inside while reading a model for the device. Its log names the cause.",
          { cause: error },
        );
    await this.parts.voice.refuse(device, {
      code: known.code,
      message: known.message,
      transfer,
      retryAfterMs: 60_000,
    });
    if (outflow !== undefined) await this.#stop(outflow);
  }
  async #stop(outflow: Outflow): Promise<void> {
    const key = outflowKey(outflow.device, outflow.transfer);
    if (this.#outflows.get(key) === outflow) this.#outflows.delete(key);
    this.parts.repository.objects.release(outflow.leaseId);
    // Not waited for: a reader may be in the middle of a piece, and nobody depends on its end.
    void outflow.sender
      .stop()
      .finally(() => outflow.coded?.release())
      .catch(() => undefined);
  }
}
