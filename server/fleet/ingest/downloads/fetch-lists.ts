/**
 * Joins the parts of a device's fetch into one list of objects. The number of unfinished lists is bounded;
 * the oldest is dropped first.
 */
import type { Fetch, ObjectRef } from "../../../../shared/wire/messages.js";
import { partNotAllowed, partsChanged } from "../ingest-errors.js";

const maxParts = 64;
const maxLists = 1024;

type List = (readonly ObjectRef[] | undefined)[];

export class FetchLists {
  readonly #unfinished = new Map<string, List>();

  /**
   * The complete list once its last part is here; undefined before.
   * @param key names the device and the transfer
   * @throws ANNOUNCE_INVALID
   */
  join(key: string, fetch: Fetch): readonly ObjectRef[] | undefined {
    const parts = Math.max(1, fetch.parts);
    if (parts > maxParts || fetch.part >= parts) throw partNotAllowed(fetch.part, parts, maxParts);
    if (parts === 1) return fetch.objects;
    const list: List =
      this.#unfinished.get(key) ?? new Array<readonly ObjectRef[] | undefined>(parts).fill(undefined);
    if (list.length !== parts) throw partsChanged();
    list[fetch.part] = fetch.objects;
    const received = list.filter((part) => part !== undefined);
    if (received.length === parts) {
      this.#unfinished.delete(key);
      return received.flat();
    }
    const oldest = this.#unfinished.keys().next().value;
    if (this.#unfinished.size > maxLists && oldest !== undefined) this.#unfinished.delete(oldest);
    this.#unfinished.set(key, list);
    return undefined;
  }
}
