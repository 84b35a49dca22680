/** Values by keys of text. */
import { removed, type Row } from "../../../shared/tables/row.js";
import { ChangedLayers, type LayeredPart, type SavedRows } from "./layers.js";
import type { ListCodec } from "./layered-lists.js";

/** A key's new value; undefined: the key is removed. */
interface Change<Value> {
  readonly value: Value | undefined;
}

export class LayeredMap<Value> implements LayeredPart {
  readonly #layers = new ChangedLayers<string, Change<Value>>();

  /** @param table the first byte of the keys of its rows */
  constructor(
    private readonly table: number,
    private readonly codec: ListCodec<Value>,
    private readonly saved: SavedRows,
  ) {}

  get(key: string): Value | undefined {
    const change = this.#layers.get(key);
    if (change !== undefined) return change.value;
    const bytes = this.saved.rows?.get(this.#rowKey(key));
    return bytes && this.codec.decode(bytes);
  }

  set(key: string, value: Value): void {
    this.#layers.set(key, { value });
  }
  delete(key: string): void {
    this.#layers.set(key, { value: undefined });
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

  *#rowsOf(changes: ReadonlyMap<string, Change<Value>>): Iterable<Row> {
    for (const [key, { value }] of changes)
      yield { key: this.#rowKey(key), value: value === undefined ? removed : this.codec.encode(value) };
  }

  #rowKey(key: string): Buffer {
    return Buffer.concat([Buffer.of(this.table), Buffer.from(key)]);
  }
}
