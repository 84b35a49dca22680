/**
 * The tensors of a stream that is being stored, for later ones that are coded against them: a checkpoint
 * against the one after it. Each names at most one such tensor (encodings.ts), so what has to be decoded
 * first is a chain, and the chain is bounded.
 */
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { readStoredTensor } from "../../../../shared/objects/tensor-stream.js";
import {
  tensorOfSource,
  type Hash,
  type Tensor,
  type TensorSource,
} from "../../../../shared/tensor/tensor.js";
import { decodeCoded, type ReceivedCoded } from "../../../../shared/wire/coding/decode-coded.js";
import { maxOwnDepth } from "../../../../shared/wire/coding/references.js";
import type { TensorCoder } from "../../../../shared/wire/coding/tensor-coder.js";
import { listEncodingReferences } from "../../../../shared/wire/encoding-links.js";
import { ownChainTooLong } from "../ingest-errors.js";

/** The depth of a coded tensor: how many have to be decoded before it in all, and of this stream. */
interface Depth {
  /** The depth in the store, if it is stored as received. */
  readonly depth: number;
  readonly ownDepth: number;
}

interface Earlier extends Depth {
  readonly load: () => Promise<Tensor>;
  /** Resolves when it is in the pack; undefined until its storing has begun. */
  done?: Promise<void>;
}

/** Depth of a tensor with these references: how many tensors have to be decoded before it. */
export function depthAgainst(objects: Pick<ObjectReader, "encodingOf">, references: readonly Hash[]): number {
  const depths = references.map((id) => {
    const encoding = objects.encodingOf(id);
    // A new tensor must not need a storage tier.
    return encoding?.needsLowFile === true ? Number.POSITIVE_INFINITY : 1 + (encoding?.depth ?? 0);
  });
  return Math.max(0, ...depths);
}

export class EarlierTensors {
  readonly #tensors = new Map<Hash, Earlier>();
  constructor(
    private readonly objects: Pick<ObjectReader, "has" | "openTensor" | "encodingOf">,
    private readonly coder: TensorCoder,
  ) {}

  addRaw(id: Hash, source: TensorSource): void {
    this.#tensors.set(id, { depth: 0, ownDepth: 0, load: () => tensorOfSource(source) });
  }

  /** @throws CHAIN_TOO_LONG where more than `maxOwnDepth` tensors of this stream have to be decoded first */
  depthOf({ ref, encoding }: ReceivedCoded): Depth {
    const references = listEncodingReferences(encoding);
    const own = references.flatMap((id) => this.#tensors.get(id) ?? []);
    const ownDepth = own.reduce((most, one) => Math.max(most, 1 + one.ownDepth), 0);
    if (ownDepth > maxOwnDepth) throw ownChainTooLong(ref.id, ownDepth, maxOwnDepth);
    const depth = own.reduce(
      (most, one) => Math.max(most, 1 + one.depth),
      depthAgainst(this.objects, references),
    );
    return { depth, ownDepth };
  }

  /** @param depth as it is stored: 0 for a keyframe */
  addCoded(received: ReceivedCoded, { depth, ownDepth }: Depth, done: Promise<void>): void {
    const { ref, header } = received;
    const load = async (): Promise<Tensor> => ({ ...header, bytes: await this.decode(received) });
    this.#tensors.set(ref.id, { depth, ownDepth, load, done });
  }

  /** Resolves when those of these tensors that belong to the stream are in the pack. */
  async settled(references: readonly Hash[]): Promise<void> {
    for (const id of references) await this.#tensors.get(id)?.done;
  }

  /** The bytes of a coded tensor; the caller compares them with its id. @throws as decodeCoded */
  async decode(received: ReceivedCoded): Promise<Uint8Array> {
    const load = async (id: Hash): Promise<Tensor> => {
      const own = this.objects.has(id) ? undefined : this.#tensors.get(id);
      return own === undefined ? await readStoredTensor(this.objects.openTensor(id)) : await own.load();
    };
    return await decodeCoded(load, this.coder, received);
  }
}
