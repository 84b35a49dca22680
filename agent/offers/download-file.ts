/**
 * Keeps the file that a download is received into, and the state from which it is resumed after a restart.
 * The state is a file next to it. Knows nothing of the link.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files, OpenFile } from "../../shared/ports.js";
import type { ReceiverState } from "../../shared/wire/transfer/receiver.js";

/** Blocks between two durable saves of a download's state. */
const blocksPerSave = 16;

interface DownloadPaths {
  readonly data: string;
  readonly state: string;
}

export class DownloadFile {
  /** Saves run serially: blocks are written concurrently, and each save replaces the same file. */
  readonly #saves = new SerialQueue();
  #blocksSinceSave = 0;

  private constructor(
    private readonly files: Files,
    private readonly file: OpenFile,
    private readonly paths: DownloadPaths,
    /** The state that an earlier run of the agent left. */
    readonly savedState: ReceiverState | undefined,
  ) {}

  static async open(files: Files, folder: string, transfer: string): Promise<DownloadFile> {
    await files.makeFolder(folder);
    const paths = { data: join(folder, `${transfer}.part`), state: join(folder, `${transfer}.json`) };
    const savedState = await readState(files, paths);
    return new DownloadFile(files, await files.open(paths.data, "append"), paths, savedState);
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
        await writeDurably(this.files, this.paths.state, new TextEncoder().encode(JSON.stringify(state)));
    });
  }

  async read(position: number, byteLength: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(byteLength);
    return bytes.subarray(0, await this.file.read(bytes, position));
  }

  /** Closes the file; its content stays for the next attempt. */
  async close(): Promise<void> {
    await this.#saves.idle();
    await this.file.close();
  }

  /** Removes what the download has stored, after `close`. */
  async remove(): Promise<void> {
    await this.files.remove(this.paths.state);
    await this.files.remove(this.paths.data);
  }
}

/** The saved state; undefined where there is none, its data is missing, or it cannot be read. */
async function readState(files: Files, { data, state }: DownloadPaths): Promise<ReceiverState | undefined> {
  if ((await files.stat(state)) === undefined || (await files.stat(data)) === undefined) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(await files.read(state))) as ReceiverState;
  } catch {
    return undefined;
  }
}
