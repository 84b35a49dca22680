/**
 * Hands what is written to a TLS socket over by one record at a time. Node keeps, for each connection and as long as
 * it lasts, room for the largest piece that it ever encrypted: with a thousand devices and blocks of 256 KiB that is
 * 256 MB, and as much again while all of them are written at once. (docs/simulate.md, "A thousand devices")
 */
import type { Writable } from "node:stream";

/** The bytes of one TLS record (RFC 8446, 5.1). */
export const recordBytes = 16 * 1024;

type Done = (error?: Error | null) => void;
interface Chunk {
  readonly chunk: Uint8Array | string;
  readonly encoding: BufferEncoding;
}

/** @param socket that encrypts; call before anything is written to it */
export function writeInRecords(socket: Writable): void {
  const write = socket._write.bind(socket);
  const writeAll = (pieces: Iterator<Buffer>, done: Done): void => {
    const next = pieces.next();
    if (next.done === true) {
      done();
      return;
    }
    write(next.value, "buffer" as BufferEncoding, (error) => {
      if (error) done(error);
      else writeAll(pieces, done);
    });
  };
  socket._write = (chunk: Chunk["chunk"], encoding, done) => {
    writeAll(piecesOf([{ chunk, encoding }]), done);
  };
  socket._writev = (chunks: readonly Chunk[], done) => {
    writeAll(piecesOf(chunks), done);
  };
}

/** The same bytes in pieces that fill a record each, but for the last one. */
function* piecesOf(chunks: readonly Chunk[]): Generator<Buffer> {
  let parts: Buffer[] = [];
  let room = recordBytes;
  for (const { chunk, encoding } of chunks) {
    let rest = bytesOf(chunk, encoding);
    while (rest.length > 0) {
      const part = rest.subarray(0, room);
      rest = rest.subarray(part.length);
      room -= part.length;
      parts.push(part);
      if (room > 0) continue;
      yield joined(parts);
      parts = [];
      room = recordBytes;
    }
  }
  if (parts.length > 0) yield joined(parts);
}

function joined(parts: readonly Buffer[]): Buffer {
  const [only] = parts;
  return only !== undefined && parts.length === 1 ? only : Buffer.concat(parts);
}

function bytesOf(chunk: Chunk["chunk"], encoding: BufferEncoding): Buffer {
  return typeof chunk === "string"
    ? Buffer.from(chunk, encoding)
    : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}
