/**
 * The file that a download is received into, and beside it the state from which the download is resumed after
 * a restart. Knows nothing of the link.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files, OpenFile } from "../../shared/ports.js";
import type { ReceiverState } from "../../shared/wire/transfer/receiver.js";

/** Blocks between two durable saves of a download's state. */
const blocksPerSave = 16;

export class DownloadFile {
  /** Saves run serially: blocks are written concurrently, and each save replaces the same file. */
  readonly #saves = new SerialQueue();
  #blocksSinceSave = 0;

  private constructor(
    private readonly files: Files,
    private readonly file: OpenFile,
    private readonly path: string,
    private readonly statePath: string,
    /** The state that an earlier run of the agent left. */
    readonly savedState: ReceiverState | undefined,
  ) {}

  static async open(files: Files, folder: string, transfer: string): Promise<DownloadFile> {
    await files.makeFolder(folder);
    const path = join(folder, `${transfer}.part`);
    const statePath = join(folder, `${transfer}.json`);
    const savedState = await readState(files, statePath, path);
    return new DownloadFile(files, await files.open(path, "append"), path, statePath, savedState);
  }

  /** Writes a block; saves the receiver's state durably after every few blocks. */
  async write(
    position: number,
    bytes: Uint8Array,
    currentState: () => ReceiverState | undefined,
  ): Promise<void> {
    await this.file.write(bytes, position);
    if (++this.#blocksSinceSave < blocksPerSave) return;
    this.#blocksSinceSave = 0;
    await this.#saves.run(async () => {
      // Taken before the sync: the state may only name blocks that the sync covers.
      const state = currentState();
      await this.file.sync();
      if (state !== undefined)
        await writeDurably(this.files, this.statePath, new TextEncoder().encode(JSON.stringify(state)));
    });
  }

  async read(position: number, byteLength: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(byteLength);
    return bytes.subarray(0, await this.file.read(bytes, position));
  }

  /** Closes the file; what it holds stays for the next try. */
  async close(): Promise<void> {
    await this.#saves.idle();
    await this.file.close();
  }

  /** After `close`: removes what the download has stored. */
  async remove(): Promise<void> {
    await this.files.remove(this.statePath);
    await this.files.remove(this.path);
  }
}

/** The saved state; undefined where there is none, its data is missing, or it cannot be read. */
async function readState(files: Files, statePath: string, path: string): Promise<ReceiverState | undefined> {
  if ((await files.stat(statePath)) === undefined || (await files.stat(path)) === undefined) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(await files.read(statePath))) as ReceiverState;
  } catch {
    return undefined;
  }
}
