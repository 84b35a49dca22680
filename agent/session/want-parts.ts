/**
 * Joins a want that came in parts. Bounded: an incomplete want is dropped when there are too many newer ones.
 */
import { StemmaError } from "../../shared/errors.js";
import type { Want } from "../../shared/wire/messages.js";

const maxParts = 256;
const maxOpen = 16;

export class WantParts {
  readonly #open = new Map<string, (Want | undefined)[]>();

  /** The complete want once its last part is here; undefined before. @throws ENVELOPE_MALFORMED */
  join(want: Want): Want | undefined {
    if (want.parts <= 1) return want;
    if (want.parts > maxParts || want.part >= want.parts)
      throw new StemmaError(
        "ENVELOPE_MALFORMED",
        `A want has part ${want.part} of ${want.parts}; at most ${maxParts} are read. It is ignored.`,
        { transfer: want.transfer },
      );
    const parts = this.#partsOf(want);
    parts[want.part] = want;
    const received = parts.filter((part) => part !== undefined);
    if (received.length < want.parts) return undefined;
    this.#open.delete(want.transfer);
    return {
      ...want,
      part: 0,
      parts: 1,
      more: false,
      objects: received.flatMap(({ objects }) => objects),
      tensorIndices: received.flatMap(({ tensorIndices }) => tensorIndices),
      bases: received.flatMap(({ bases }) => bases),
    };
  }

  clear(): void {
    this.#open.clear();
  }

  #partsOf({ transfer, parts }: Want): (Want | undefined)[] {
    const known = this.#open.get(transfer);
    if (known?.length === parts) return known;
    const fresh = new Array<Want | undefined>(parts).fill(undefined);
    this.#open.set(transfer, fresh);
    const oldest = this.#open.keys().next().value;
    if (this.#open.size > maxOpen && oldest !== undefined) this.#open.delete(oldest);
    return fresh;
  }
}
