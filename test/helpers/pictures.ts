/** Pictures as a test writes them: PNG files of any form, and small JPEG files that another program made. */
import { deflateSync } from "node:zlib";
import { crc32Of } from "../../shared/train/datasets/png-crc.js";

const chunk = (type: string, content: Uint8Array): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), content]);
  const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  crc.writeUInt32BE(crc32Of(body));
  return Buffer.concat([length, body, crc]);
};

export interface PngParts {
  readonly width: number;
  readonly height: number;
  readonly depth?: number;
  readonly colour?: number;
  readonly interlace?: number;
  /** Filter byte and packed samples of each row, all passes one after the other. */
  readonly rows: readonly (readonly number[])[];
  readonly palette?: readonly number[];
  readonly transparency?: readonly number[];
  /** Further chunks before the pixels. */
  readonly extra?: readonly (readonly [string, readonly number[]])[];
}

export function pngOf(parts: PngParts): Uint8Array {
  const {
    width,
    height,
    depth = 8,
    colour = 2,
    interlace = 0,
    rows,
    palette,
    transparency,
    extra = [],
  } = parts;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([depth, colour, 0, 0, interlace], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    ...extra.map(([type, content]) => chunk(type, Uint8Array.from(content))),
    ...(palette === undefined ? [] : [chunk("PLTE", Uint8Array.from(palette))]),
    ...(transparency === undefined ? [] : [chunk("tRNS", Uint8Array.from(transparency))]),
    chunk("IDAT", deflateSync(Uint8Array.from(rows.flat()))),
    chunk("IEND", new Uint8Array()),
  ]);
}

/** 16 × 8 pixels with chroma of half the size, by libjpeg: (16 x, 32 y, 2 x y mod 256). */
export const jpegs = {
  baseline:
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdB" +
    "RkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P" +
    "T09PT09PT09PT09PT0//wAARCAAIABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAX/xAAaEAACAwEBAAAAAAAA" +
    "AAAAAAAAEQQGoSIj/8QAFQEBAQAAAAAAAAAAAAAAAAAAAwX/xAAcEQABAwUAAAAAAAAAAAAAAAADAAECBAURITL/2gAMAwEA" +
    "AhEDEQA/AIsSttcYW4lYa88AJYZuTpBbK87Y2v/Z",
  progressive:
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdB" +
    "RkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P" +
    "T09PT09PT09PT09PT0//wgARCAAIABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAT/xAAVAQEBAAAAAAAAAAAA" +
    "AAAAAAADBP/aAAwDAQACEAMQAAABitJT/8QAFhAAAwAAAAAAAAAAAAAAAAAAAAIE/9oACAEBAAEFAlmFmP/EABcRAAMBAAAA" +
    "AAAAAAAAAAAAAAACAwT/2gAIAQMBAT8BzXc//8QAGBEAAgMAAAAAAAAAAAAAAAAAAAECEjH/2gAIAQIBAT8Bg7af/8QAFRAB" +
    "AQAAAAAAAAAAAAAAAAAAADH/2gAIAQEABj8CR//EABUQAQEAAAAAAAAAAAAAAAAAABBh/9oACAEBAAE/IZG//9oADAMBAAIA" +
    "AwAAABB3/8QAFxEAAwEAAAAAAAAAAAAAAAAAAAERIf/aAAgBAwEBPxBeaf/EABURAQEAAAAAAAAAAAAAAAAAAAAB/9oACAEC" +
    "AQE/EKj/xAAWEAEBAQAAAAAAAAAAAAAAAAARAMH/2gAIAQEAAT8QYzOYv//Z",
  cmyk:
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNbXYW1hpCe" +
    "o6utq2eAvMm6pseZqKuk/8AAFAgACAAQBEMRAE0RAFkRAEsRAP/EABcAAAMBAAAAAAAAAAAAAAAAAAAFBgP/xAAbEAABBQEB" +
    "AAAAAAAAAAAAAAAAAwUTFUFiQv/aAA4EQwBNAFkASwAAPwBU34ZUXAgQRkwpimb8Ci4GKDVJ5A//2Q==",
} as const;

export const jpegOf = (name: keyof typeof jpegs): Uint8Array => Buffer.from(jpegs[name], "base64");
