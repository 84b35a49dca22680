/** A server's side of offers without a server: models in memory, their offers, and what a device fetches of them. */
import type { Download, Downloads } from "../../agent/offers/downloads.js";
import type { ModelSource } from "../../shared/model/model.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";
import { memoryStore } from "../../shared/objects/memory-store.js";
import type { Clock } from "../../shared/ports.js";
import { opaqueModelSource } from "../../shared/save/model-source.js";
import {
  loadSaveBase,
  saveModel,
  type SavedModel,
  type SaveModelOptions,
} from "../../shared/save/save-model.js";
import { objectId } from "../../shared/tensor/hash.js";
import { tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { PrivateKey } from "../../shared/trust/keys.js";
import { signOffer } from "../../shared/trust/signatures.js";
import type { ObjectRef, Offer } from "../../shared/wire/messages.js";

const subject = { fleet: "f", device: "d", generation: 1, line: "cam" } as const;

export interface OfferedModel {
  readonly saved: SavedModel;
  readonly offer: Offer;
  /** Of its only weight. */
  readonly tensor: Hash;
}

export class OfferedModels {
  readonly server: ReturnType<typeof memoryStore>;
  /** What was fetched, in turn. */
  readonly fetched: (readonly ObjectRef[])[] = [];
  readonly #pipelines = new Map<Hash, Uint8Array>();

  constructor(
    private readonly key: PrivateKey,
    private readonly clock: Clock,
  ) {
    this.server = memoryStore({ clock });
  }

  /** Of the device that they are offered to. */
  get enrolment(): Enrolment {
    return { ...subject, serverPublicKey: this.key.publicKey, lines: [subject.line] } as unknown as Enrolment;
  }

  /** A model of one weight, or of two, and its offer with all small objects. */
  async offer(name: string, weight: Tensor, base?: SavedModel, shared?: Tensor): Promise<OfferedModel> {
    const source = opaqueModelSource([
      { name: "w", ...weight },
      ...(shared === undefined ? [] : [{ name: "x", ...shared }]),
    ]);
    return await this.offerOf(name, source, { base });
  }

  /** Any model, and its offer with all small objects. */
  async offerOf(
    name: string,
    source: ModelSource,
    {
      base,
      attachments,
    }: {
      readonly base?: SavedModel | undefined;
      readonly attachments?: SaveModelOptions["attachments"];
    } = {},
  ): Promise<OfferedModel> {
    const { server, key, clock } = this;
    const saved = await saveModel(
      server,
      source,
      {
        name,
        fleet: subject.fleet,
        device: "server",
        line: "models",
        sequence: 1,
        bases: base === undefined ? [] : [await loadSaveBase(server, base.versionId)],
        environment: { backend: "none" },
        ...(attachments === undefined ? {} : { attachments }),
      },
      clock,
    );
    const { versionId, record, recordBytes } = saved;
    const objects = await Promise.all(
      smallObjectsOf(record).map(async ({ kind, id }) => ({ kind, data: await server.read(kind, id) })),
    );
    const signature = signOffer(key, { ...subject, versionId });
    const { line, generation } = subject;
    const common = { type: "offer", line, generation, name, version: 1 } as const;
    return {
      saved,
      tensor: source.leaves[0]?.tensor as Hash,
      offer: { ...common, versionId, record: recordBytes, objects, signature },
    };
  }

  /** Makes a pipeline known to the server. @returns its id */
  pipeline(bytes: Uint8Array): Hash {
    const id = objectId("pipeline", bytes);
    this.#pipelines.set(id, bytes);
    return id;
  }

  /** Sends everything raw. */
  get downloads(): Downloads {
    const fetch = async (_: Hash, refs: readonly ObjectRef[]): Promise<Download> => {
      this.fetched.push(refs);
      const parts = await Promise.all(refs.map((ref) => this.#read(ref)));
      const bytes = Buffer.concat(parts);
      return {
        refs: refs.map((ref, at) => ({ ...ref, byteLength: parts[at]?.length ?? 0 })),
        encodings: [],
        read: (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)),
        done: () => Promise.resolve(),
      };
    };
    return { fetch } as unknown as Downloads;
  }

  async #read({ kind, id }: ObjectRef): Promise<Uint8Array> {
    if (kind === "tensor") return (await tensorOfSource(this.server.openTensor(id))).bytes;
    return this.#pipelines.get(id) ?? (await this.server.read(kind, id));
  }
}
