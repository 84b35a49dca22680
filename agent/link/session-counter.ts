/**
 * The session counter: incremented for each CONNECT and durable before it, so that no two sessions of a
 * device ever have the same number (docs/formats.md, "Session counter"). Also stores which session was
 * accepted last.
 */
import { join } from "node:path";
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
    const damaged = (cause?: unknown): StemmaError =>
      new StemmaError(
        "CONFIG_INVALID",
        `The session counter in ${path} is damaged. Enrol this device again, or write {"session": N, "accepted": 0} with N above the session that \`stemma device show\` names.`,
        { path, cause },
      );
    let value: Partial<Counter>;
    try {
      value = JSON.parse(text) as Partial<Counter>;
    } catch (cause) {
      throw damaged(cause);
    }
    const { session, accepted } = value;
    if (
      !Number.isSafeInteger(session) ||
      !Number.isSafeInteger(accepted) ||
      (session as number) < 0 ||
      (accepted as number) < 0
    )
      throw damaged();
    return new SessionCounter(files, path, { session: session as number, accepted: accepted as number });
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
    await writeDurably(this.files, this.path, new TextEncoder().encode(`${JSON.stringify(counter)}\n`));
    this.counter = counter;
  }
}
