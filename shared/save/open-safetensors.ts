/**
 * Opens safetensors files of any number of tensors without holding up the event loop: a long header is parsed in a
 * thread, and its tensors arrive in pieces.
 */
import { itemsPerStep } from "../concurrency/in-steps.js";
import { maxHeaderBytes, type SafetensorsEntry } from "../tensor/safetensors-header.js";
import {
  readFully,
  readSafetensors,
  type ByteFile,
  type SafetensorsFile,
} from "../tensor/safetensors-reader.js";
import { refuseSavedModel } from "../tensor/saved-model.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import { movable, WorkerCalls } from "../threads/worker-calls.js";
import { arrangeHeader, type ArrangedHeader } from "./arrange-header.js";
import type { HeaderAnswer, HeaderCall } from "./header-thread.js";

/** Longer headers are parsed in a thread: about 8000 tensors, which take some ten milliseconds. */
export const maxInlineHeaderBytes = 1_000_000;
/** Bytes of one read. */
const readBytes = 4 * 1024 * 1024;
const openingBrace = "{".charCodeAt(0);

export interface OpenedSafetensors
  extends ArrangedHeader, Pick<SafetensorsFile, "dataStart" | "source" | "readData"> {}

/**
 * Reads and checks the header, as readSafetensors does.
 * @param where what the file is called in messages (its path)
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED; INTERNAL, INTERRUPTED where the thread ended
 */
export async function openSafetensors(file: ByteFile, where: string): Promise<OpenedSafetensors> {
  const size = await file.size();
  const bytes = await longHeader(file, { size, where });
  if (bytes === undefined) {
    await refuseSavedModel(file, where);
    const opened = await readSafetensors(file, where);
    return { ...opened, ...arrangeHeader(opened) };
  }
  const dataStart = 8 + bytes.length;
  const dataBytes = size - dataStart;
  const header = await parseInThread({ bytes, dataBytes, where });
  return {
    ...header,
    dataStart,
    source: ({ dtype, shape, begin, end }) => ({
      dtype,
      shape,
      byteLength: end - begin,
      async *chunks() {
        for (let at = begin; at < end; at += readBytes)
          yield await readRange(file, {
            position: dataStart + at,
            byteLength: Math.min(readBytes, end - at),
            where,
          });
      },
    }),
    readData: () => readRange(file, { position: dataStart, byteLength: dataBytes, where }),
  };
}

interface Range {
  readonly position: number;
  readonly byteLength: number;
  readonly where: string;
}

/** The bytes of a header that a thread parses; undefined where it is short, or the file cannot be safetensors. */
async function longHeader(
  file: ByteFile,
  { size, where }: { readonly size: number; readonly where: string },
): Promise<Uint8Array | undefined> {
  if (size <= 8 + maxInlineHeaderBytes) return undefined;
  const first = Buffer.from(await readRange(file, { position: 0, byteLength: 9, where }));
  const byteLength = Number(first.readBigUInt64LE(0));
  const isLong = byteLength > maxInlineHeaderBytes && byteLength <= maxHeaderBytes && 8 + byteLength <= size;
  return isLong && first[8] === openingBrace
    ? await readRange(file, { position: 8, byteLength, where })
    : undefined;
}

/** @throws SAFETENSORS_TRUNCATED */
async function readRange(file: ByteFile, { position, byteLength, where }: Range): Promise<Uint8Array> {
  const target = uninitializedBytes(byteLength);
  await readFully(file, target, position, where);
  return target;
}

async function parseInThread(call: HeaderCall & { readonly bytes: Uint8Array }): Promise<ArrangedHeader> {
  const thread = new WorkerCalls<HeaderCall, HeaderAnswer>(
    new URL("./header-thread.js", import.meta.url),
    "reads the header of a file",
  );
  try {
    const answer = await thread.call(call, movable([call.bytes]));
    const { count, ...header } = answer as Extract<HeaderAnswer, { count: number }>;
    const tensors: SafetensorsEntry[] = [];
    for (let from = 0; from < count; from += itemsPerStep) {
      const piece = await thread.call({ from, to: from + itemsPerStep }, []);
      tensors.push(...(piece as Extract<HeaderAnswer, { tensors: unknown }>).tensors);
    }
    return { ...header, tensors };
  } finally {
    await thread.close();
  }
}
