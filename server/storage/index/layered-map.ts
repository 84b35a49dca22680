/** Values by keys of text. */
import type { Row } from "../../../shared/tables/row.js";
import type { LayeredPart, SavedRows } from "./layers.js";
import type { ListCodec } from "./layered-lists.js";

export class LayeredMap<Value> implements LayeredPart {
  #changed = new Map<string, Value>();
  #committing: Map<string, Value> | undefined;

  /** @param table the first byte of the keys of its rows */
  constructor(
    private readonly table: number,
    private readonly codec: ListCodec<Value>,
    private readonly saved: SavedRows,
  ) {}

  get(key: string): Value | undefined {
    const layer = [this.#changed, this.#committing].find((each) => each?.has(key) === true);
    if (layer !== undefined) return layer.get(key);
    const bytes = this.saved.rows?.get(this.#rowKey(key));
    return bytes && this.codec.decode(bytes);
  }

  set(key: string, value: Value): void {
    this.#changed.set(key, value);
  }

  beginCommit(): Iterable<Row> {
    const committing = this.#changed;
    this.#committing = committing;
    this.#changed = new Map();
    return this.#rowsOf(committing);
  }
  committed(): void {
    this.#committing = undefined;
  }
  failed(): void {
    this.#changed = new Map([...(this.#committing ?? []), ...this.#changed]);
    this.#committing = undefined;
  }

  *#rowsOf(values: ReadonlyMap<string, Value>): Iterable<Row> {
    for (const [key, value] of values) yield { key: this.#rowKey(key), value: this.codec.encode(value) };
  }

  #rowKey(key: string): Buffer {
    return Buffer.concat([Buffer.of(this.table), Buffer.from(key)]);
  }
}
