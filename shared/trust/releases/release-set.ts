/**
 * A fleet's metadata of releases as it goes to devices: one text, cut into parts that fit into messages. The receiver
 * knows how much it takes before it keeps anything. Pure.
 */
import * as z from "zod";
import { sha256 } from "../../tensor/hash.js";
import type { Hash } from "../../tensor/tensor.js";
import { maxReleaseParts, releasePartBytes } from "../../wire/limits.js";
import type { ReleasePart } from "../../wire/messages.js";
import { metadataInvalid } from "./release-errors.js";
import { maxRoots, type MetadataSet } from "./trusted-releases.js";

const setSchema = z.strictObject({
  roots: z.array(z.string()).min(1).max(maxRoots),
  timestamp: z.string(),
  snapshot: z.string(),
  targets: z.string(),
});

/** The parts of a set; only its newest roots, which a device follows that was away for so many rotations. */
export function partsOf(set: MetadataSet): readonly ReleasePart[] {
  const { roots, timestamp, snapshot, targets } = set;
  const bytes = Buffer.from(
    JSON.stringify({ roots: roots.slice(-maxRoots), timestamp, snapshot, targets }),
    "utf8",
  );
  const id = sha256(bytes);
  const parts = Math.ceil(bytes.length / releasePartBytes);
  if (parts > maxReleaseParts) throw metadataInvalid(`they are longer than ${maxReleaseParts} messages`);
  return Array.from({ length: parts }, (_, part) => ({
    type: "releasePart",
    set: id,
    part,
    parts,
    data: bytes.subarray(part * releasePartBytes, (part + 1) * releasePartBytes),
  }));
}

export interface ReceivedSet {
  readonly id: Hash;
  readonly set: MetadataSet;
}

/** Collects the parts of one set at a time; a part of another set begins with that. */
export class SetCollector {
  #id: Hash | undefined;
  #parts: (Uint8Array | undefined)[] = [];

  /** The set, where this part completes it. @throws RELEASE_METADATA_INVALID */
  take({ set, part, parts, data }: ReleasePart): ReceivedSet | undefined {
    if (parts < 1 || parts > maxReleaseParts || part >= parts)
      throw metadataInvalid(
        `a part is numbered ${part} of ${parts}, and at most ${maxReleaseParts} are taken`,
      );
    if (set !== this.#id || parts !== this.#parts.length) {
      this.#id = set;
      this.#parts = Array.from({ length: parts }, () => undefined);
    }
    this.#parts[part] = data;
    const all = this.#parts.filter((one) => one !== undefined);
    if (all.length < parts) return undefined;
    this.clear();
    const bytes = Buffer.concat(all);
    if (sha256(bytes) !== set) throw metadataInvalid("the parts do not add up to what was announced");
    return { id: set, set: parseSet(bytes.toString("utf8")) };
  }

  /** Drops what is not complete: it is sent again in the next session. */
  clear(): void {
    this.#id = undefined;
    this.#parts = [];
  }
}

/** @throws RELEASE_METADATA_INVALID */
export function parseSet(text: string): MetadataSet {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw metadataInvalid("the set is not JSON", cause);
  }
  const parsed = setSchema.safeParse(json);
  if (!parsed.success) throw metadataInvalid("the set is malformed", parsed.error);
  return parsed.data;
}
