/** A request that waits for its answer on the disk, beside the enrolment file: after a kill it is sent again. */
import * as z from "zod";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files } from "../../shared/ports.js";
import { parseJson } from "../../shared/trust/keys.js";

const waitingSchema = z.strictObject({
  /** The new connection key; empty where the owner's authority gives the device its certificate. */
  key: z.string(),
  request: z.string(),
});
export type WaitingRequest = z.infer<typeof waitingSchema>;

export class WaitingRequestFile {
  constructor(
    private readonly files: Files,
    /** The path of the enrolment file. */
    private readonly enrolmentPath: string,
  ) {}

  get #path(): string {
    return `${this.enrolmentPath}.renewal`;
  }

  /** Reads the waiting request; undefined where none waits, or where it cannot be read. */
  async read(): Promise<WaitingRequest | undefined> {
    if ((await this.files.stat(this.#path)) === undefined) return undefined;
    return waitingSchema.safeParse(parseJson(await this.files.read(this.#path))).data;
  }

  async write(waiting: WaitingRequest): Promise<void> {
    await writeDurably(this.files, this.#path, Buffer.from(`${JSON.stringify(waiting)}\n`));
  }

  async remove(): Promise<void> {
    await this.files.remove(this.#path);
  }
}
