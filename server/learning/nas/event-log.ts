/**
 * A file with one line for each event, written with fsync before anything depends on it. A line is 16 hexadecimal
 * digits of the SHA-256 of its JSON, a space and the JSON. A line that is cut short at the end was never relied on and
 * is removed.
 */
import { dirname } from "node:path";
import type * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import type { Files } from "../../../shared/ports.js";
import { sha256 } from "../../../shared/tensor/hash.js";

const digestDigits = 16;
const maxLogBytes = 256 * 1024 * 1024;

interface EventLogKind<Event> {
  readonly schema: z.ZodType<Event>;
  readonly damaged: (path: string, why: string) => Error;
}

export class EventLog<Event> {
  readonly #files: Files;
  readonly #path: string;
  readonly #schema: z.ZodType<Event>;
  readonly #events: Event[];
  #end: number;
  readonly #appends = new SerialQueue();

  private constructor(
    { files, path, schema }: { files: Files; path: string; schema: z.ZodType<Event> },
    events: Event[],
    end: number,
  ) {
    this.#files = files;
    this.#path = path;
    this.#schema = schema;
    this.#events = events;
    this.#end = end;
  }

  /** @throws what `damaged` makes, where a line before the last one is not what was written */
  static async open<Event>(
    files: Files,
    path: string,
    { schema, damaged }: EventLogKind<Event>,
  ): Promise<EventLog<Event>> {
    const stat = await files.stat(path);
    if (stat !== undefined && stat.size > maxLogBytes) throw damaged(path, `it has ${stat.size} bytes`);
    const bytes = stat === undefined ? Buffer.alloc(0) : Buffer.from(await files.read(path));
    const end = bytes.lastIndexOf("\n") + 1;
    const lines = bytes.subarray(0, end).toString("utf8").split("\n").slice(0, -1);
    const events = lines.map((line, index) => {
      const text = line.slice(digestDigits + 1);
      if (sha256(text).slice(0, digestDigits) !== line.slice(0, digestDigits))
        throw damaged(path, `line ${index + 1} is not what was written`);
      return schema.parse(JSON.parse(text));
    });
    return new EventLog({ files, path, schema }, events, end);
  }

  get events(): readonly Event[] {
    return this.#events;
  }

  /** Resolves when the events are durable, after those of earlier calls. */
  append(...events: readonly Event[]): Promise<void> {
    return this.#appends.run(() => this.#append(events));
  }

  async #append(events: readonly Event[]): Promise<void> {
    const lines = events.map((each) => {
      const text = JSON.stringify(this.#schema.parse(each));
      return `${sha256(text).slice(0, digestDigits)} ${text}\n`;
    });
    const bytes = Buffer.from(lines.join(""), "utf8");
    const isNew = this.#end === 0;
    const file = await this.#files.open(this.#path, "append");
    try {
      await file.truncate(this.#end);
      await file.write(bytes, this.#end);
      await file.sync();
    } finally {
      await file.close();
    }
    if (isNew) await this.#files.syncFolder(dirname(this.#path));
    this.#end += bytes.length;
    this.#events.push(...events);
  }
}
