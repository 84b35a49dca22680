/**
 * Values by the ids of items that have positions, in whose order they are on the disk: whoever goes through the items
 * in order reads neighbours. A value that was read is kept for a while.
 */
import { LRUCache } from "lru-cache";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Row } from "../../../shared/tables/row.js";
import { ChangedLayers, orderOf, type LayeredPart, type SavedRows } from "./layers.js";
import type { ListCodec } from "./layered-lists.js";

const keptValues = 2048;

export class LayeredValues<Value extends object> implements LayeredPart {
  readonly #layers = new ChangedLayers<Hash, Value>();
  readonly #kept = new LRUCache<Hash, Value>({ max: keptValues });

  /**
   * @param table the first byte of the keys of its rows
   * @param positionOf the position of the item with an id
   */
  constructor(
    private readonly table: number,
    private readonly codec: ListCodec<Value>,
    private readonly saved: SavedRows,
    private readonly positionOf: (id: Hash) => number | undefined,
  ) {}

  get(id: Hash): Value | undefined {
    const found = this.#layers.get(id) ?? this.#kept.get(id);
    if (found !== undefined) return found;
    const bytes = this.#read(id);
    if (bytes === undefined) return undefined;
    const value = this.codec.decode(bytes);
    this.#kept.set(id, value);
    return value;
  }

  has(id: Hash): boolean {
    return this.#layers.get(id) !== undefined || this.#kept.has(id) || this.#read(id) !== undefined;
  }

  #read(id: Hash): Buffer | undefined {
    const { rows } = this.saved;
    const position = rows && this.positionOf(id);
    return position === undefined ? undefined : rows?.get(this.#rowKey(position));
  }

  set(id: Hash, value: Value): void {
    this.#kept.delete(id);
    this.#layers.set(id, value);
  }

  beginCommit(): Iterable<Row> {
    return this.#rowsOf(this.#layers.beginCommit());
  }
  committed(): void {
    this.#layers.committed();
  }
  failed(): void {
    this.#layers.failed();
  }

  *#rowsOf(values: ReadonlyMap<Hash, Value>): Iterable<Row> {
    for (const [id, value] of values) {
      const position = this.positionOf(id);
      if (position !== undefined) yield { key: this.#rowKey(position), value: this.codec.encode(value) };
    }
  }

  #rowKey(position: number): Buffer {
    return Buffer.concat([Buffer.of(this.table), orderOf(position)]);
  }
}
