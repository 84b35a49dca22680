/**
 * The further files of an import: checkpoints and the optimizer's state. In a stream they come before the
 * model's file, each with the length that the options state.
 */
import { join } from "node:path";
import type { Files, OpenFile, Random } from "../../../shared/ports.js";
import { modelSourceOfSafetensors } from "../../../shared/save/model-source.js";
import type { SaveUses } from "../../../shared/save/save-uses.js";
import type { ImportOptions } from "../../interface/api/server-operations.js";
import { partCutOff, partTwice } from "./model-errors.js";

export type ImportPart = NonNullable<ImportOptions["parts"]>[number];

/** A file of the import that was received. */
export interface ReceivedPart extends ImportPart {
  readonly path: string;
}

function nameOfPart(part: ImportPart): string {
  const what =
    part.iteration === undefined ? "optimizer's state" : `checkpoint after iteration ${part.iteration}`;
  return part.fileName === undefined ? `The ${what}` : `The file ${part.fileName} (${what})`;
}

/** @throws HTTP_REQUEST_INVALID for two parts of the same role */
export function checkParts(parts: readonly ImportPart[]): void {
  const roles = parts.map(({ iteration }) => iteration);
  if (new Set(roles).size === roles.length) return;
  throw partTwice();
}

/** Cuts a stream into files of given lengths and what follows them. */
export class StreamCutter {
  readonly #reader: AsyncIterator<Uint8Array>;
  #buffer: Uint8Array = new Uint8Array(0);

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#reader = chunks[Symbol.asyncIterator]();
  }

  /** The next bytes of the stream: fewer than `byteLength` where it ends before. */
  async *take(byteLength: number): AsyncIterable<Uint8Array> {
    for (let left = byteLength; left > 0;) {
      if (this.#buffer.length === 0) {
        const next = await this.#reader.next();
        if (next.done === true) return;
        this.#buffer = next.value;
        continue;
      }
      const piece = this.#buffer.subarray(0, left);
      this.#buffer = this.#buffer.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  /** Yields everything that is left of the stream. */
  rest(): AsyncIterable<Uint8Array> {
    return this.take(Number.MAX_SAFE_INTEGER);
  }
}

/** Writes the parts to files of their own. @throws SAFETENSORS_TRUNCATED, DISK_FULL */
export async function receiveParts(
  { files, random }: { readonly files: Files; readonly random: Random },
  folder: string,
  { parts, stream }: { readonly parts: readonly ImportPart[]; readonly stream: StreamCutter },
): Promise<{ readonly received: readonly ReceivedPart[]; readonly remove: () => Promise<void> }> {
  const received: ReceivedPart[] = [];
  const remove = async (): Promise<void> => {
    for (const { path } of received) await files.remove(path);
  };
  try {
    for (const part of parts) {
      const path = join(folder, `import-${Buffer.from(random.bytes(8)).toString("hex")}.safetensors`);
      received.push({ ...part, path });
      await receivePart(files, { ...part, path }, stream);
    }
    return { received, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function receivePart(files: Files, part: ReceivedPart, stream: StreamCutter): Promise<void> {
  const file = await files.open(part.path, "create");
  try {
    let at = 0;
    for await (const piece of stream.take(part.byteLength)) {
      await file.write(piece, at);
      at += piece.length;
    }
    if (at !== part.byteLength) throw partCutOff(nameOfPart(part), at, part.byteLength);
  } finally {
    await file.close();
  }
}

/** The opened parts of an import, as the save uses them. The files stay open until `close`. */
export interface OpenedParts {
  readonly uses: SaveUses | undefined;
  close(): Promise<void>;
}

/**
 * Reads the parts: checkpoints with the model's architecture, the optimizer's state without one.
 * @throws as modelSourceOfSafetensors, naming the part's file
 */
export async function openParts(
  files: Files,
  parts: readonly ReceivedPart[],
  modelJson: Uint8Array | undefined,
): Promise<OpenedParts> {
  const opened: OpenFile[] = [];
  const close = async (): Promise<void> => {
    for (const file of opened) await file.close();
  };
  try {
    const uses: { -readonly [Member in keyof SaveUses]: SaveUses[Member] } = {};
    const checkpoints: { iteration: number; model: NonNullable<SaveUses["optimizer"]> }[] = [];
    for (const part of [...parts].sort((a, b) => (a.iteration ?? -1) - (b.iteration ?? -1))) {
      const file = await files.open(part.path, "read");
      opened.push(file);
      const { iteration } = part;
      const model = await modelSourceOfSafetensors(
        file,
        nameOfPart(part),
        iteration === undefined || modelJson === undefined ? {} : { modelJson },
      );
      if (iteration === undefined) uses.optimizer = model;
      else checkpoints.push({ iteration, model });
    }
    if (checkpoints.length > 0) uses.checkpoints = checkpoints;
    return { uses: parts.length === 0 ? undefined : uses, close };
  } catch (error) {
    await close();
    throw error;
  }
}
