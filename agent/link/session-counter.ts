/**
 * Counts the sessions of a device, durably before each CONNECT. So no two sessions of a device ever have the
 * same number (docs/formats.md, "Session counter"). Also stores which session was accepted last.
 */
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { StemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files } from "../../shared/ports.js";

interface Counter {
  readonly session: number;
  readonly accepted: number;
}

export class SessionCounter {
  private constructor(
    private readonly files: Files,
    private readonly path: string,
    private counter: Counter,
  ) {}

  /**
   * @throws CONFIG_INVALID when the file is damaged: guessing a number could make this device look like a
   * clone
   */
  static async open(files: Files, home: string): Promise<SessionCounter> {
    const path = join(home, "session.json");
    if ((await files.stat(path)) === undefined)
      return new SessionCounter(files, path, { session: 0, accepted: 0 });
    const text = new TextDecoder().decode((await files.read(path)).subarray(0, 4096));
    const damaged = (): StemmaError =>
      new StemmaError(
        "CONFIG_INVALID",
        `The session counter in ${path} is damaged. Enrol this device again, or write {"session": N, "accepted": 0} with N above the session that \`stemma device show\` names.`,
        { path },
      );
    const counter = readCounter(text);
    if (counter === undefined) throw damaged();
    return new SessionCounter(files, path, counter);
  }

  get session(): number {
    return this.counter.session;
  }
  /** The newest session whose CONNECT was accepted; 0: none. */
  get accepted(): number {
    return this.counter.accepted;
  }

  /** The number of the next CONNECT; durable when this resolves. */
  async next(): Promise<number> {
    await this.#write({ session: this.counter.session + 1, accepted: this.counter.accepted });
    return this.counter.session;
  }

  async accept(session: number): Promise<void> {
    if (session > this.counter.accepted)
      await this.#write({ session: this.counter.session, accepted: session });
  }

  async #write(counter: Counter): Promise<void> {
    const text = `${JSON.stringify({ ...counter, check: checkOf(counter) })}\n`;
    await writeDurably(this.files, this.path, new TextEncoder().encode(text));
    this.counter = counter;
  }
}

/** CRC-32 over both numbers: one changed bit of a digit would make this device look like a clone. */
function checkOf({ session, accepted }: Counter): number {
  return crc32(`${session} ${accepted}`);
}

/** Parses a counter; undefined where the file is damaged. One that a person wrote has no check. */
function readCounter(text: string): Counter | undefined {
  let value: Partial<Counter> & { readonly check?: number };
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { session, accepted, check, ...others } = value;
  if (!isCount(session) || !isCount(accepted) || Object.keys(others).length > 0) return undefined;
  const counter = { session, accepted };
  return check === undefined || check === checkOf(counter) ? counter : undefined;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
