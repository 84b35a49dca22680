/** Reads a text file that a command is given, up to a bound. A pipe would make the command wait for ever. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { StemmaError } from "../../shared/errors.js";
import { isOpenDescriptor } from "../../shared/files/not-regular.js";
import { openRegularFile } from "../../shared/files/regular-file.js";

/**
 * Reads UTF-8, without a byte order mark before it.
 * @param path a file, a link to one, an open descriptor, or - for standard input
 * @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED, USAGE where it has more bytes
 */
export async function readTextFile(path: string, maxBytes: number): Promise<string> {
  return new TextDecoder().decode(await readSmallFile(path, maxBytes));
}

/** Reads a file as `readTextFile`, as bytes. */
export async function readSmallFile(path: string, maxBytes: number): Promise<Buffer> {
  if (path === "-") return await readStream(process.stdin, path, maxBytes);
  if (isOpenDescriptor(path) && (await stat(path).catch(() => undefined))?.isFIFO() === true)
    return await readStream(createReadStream(path), path, maxBytes);
  const { file, size } = await openRegularFile(path, { followLinks: true });
  try {
    if (size > maxBytes) throw tooLong(path, maxBytes);
    const bytes = Buffer.alloc(size);
    return bytes.subarray(0, await file.read(bytes, 0));
  } finally {
    await file.close();
  }
}

async function readStream(stream: NodeJS.ReadableStream, path: string, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw tooLong(path, maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function tooLong(path: string, maxBytes: number): StemmaError {
  return new StemmaError("USAGE", `${path} has more than ${maxBytes} bytes. Name another file.`, { path });
}
