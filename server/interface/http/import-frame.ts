/**
 * Defines the body of an import over HTTP. It is a length (u32, little-endian), that many bytes of JSON (the
 * options, with attachments as base64), then the safetensors files as they are: checkpoints and the
 * optimizer's state in the order of the options' `parts`, then the model's. So an import is one request, of
 * which only the options are held in memory.
 */
import { defined } from "../../../shared/defined.js";
import type { ImportOptions, LocalFile } from "../api/server-operations.js";
import { importOptions, maxImportOptionsBytes } from "../api/models/import-schemas.js";
import * as z from "zod";
import { importEndedEarly, importNotJson, importOptionsTooLong, inputInvalid } from "./http-errors.js";

/** @param localFile the file that the server reads itself, so that none follows */
export function encodeImportOptions(options: ImportOptions, localFile?: LocalFile): Uint8Array {
  const { fleet: _fleet, attachments, ...rest } = options;
  const json = Buffer.from(
    JSON.stringify({
      ...rest,
      ...defined({ localFile }),
      attachments: attachments?.map(({ name, bytes }) => ({
        name,
        base64: Buffer.from(bytes).toString("base64"),
      })),
    }),
  );
  const frame = Buffer.alloc(4 + json.length);
  frame.writeUInt32LE(json.length, 0);
  json.copy(frame, 4);
  return frame;
}

/** Splits a body into its options and the file. @throws HTTP_REQUEST_INVALID, SIZE_OVER_LIMIT */
export async function decodeImport(
  fleet: string,
  body: AsyncIterable<Uint8Array>,
): Promise<{
  readonly options: ImportOptions;
  readonly file: AsyncIterable<Uint8Array>;
  readonly localFile: LocalFile | undefined;
}> {
  const reader = new FrameReader(body);
  const length = (await reader.take(4)).readUInt32LE(0);
  if (length > maxImportOptionsBytes) throw importOptionsTooLong(length, maxImportOptionsBytes);
  const { attachments, localFile, ...rest } = parseOptions((await reader.take(length)).toString("utf8"));
  return {
    localFile,
    options: {
      fleet,
      ...rest,
      ...defined({
        attachments: attachments?.map(({ name, base64 }) => ({
          name,
          bytes: Buffer.from(base64, "base64"),
        })),
      }),
    },
    file: reader.rest(),
  };
}

/** @throws HTTP_REQUEST_INVALID */
function parseOptions(text: string): z.output<typeof importOptions> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw importNotJson(cause);
  }
  const parsed = importOptions.safeParse(json);
  if (!parsed.success) throw inputInvalid("The import's options are", parsed.error);
  return parsed.data;
}

/** Reads a body first in pieces of known length, then as it comes. */
class FrameReader {
  readonly #reader: AsyncIterator<Uint8Array>;
  #unread: Buffer = Buffer.alloc(0);
  #takenBytes = 0;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#reader = body[Symbol.asyncIterator]();
  }

  /** The next `count` bytes. @throws HTTP_REQUEST_INVALID where the body ends before */
  async take(count: number): Promise<Buffer> {
    while (this.#unread.length < count) {
      const next = await this.#reader.next();
      if (next.done === true) throw importEndedEarly(this.#takenBytes + this.#unread.length);
      this.#unread =
        this.#unread.length === 0
          ? Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength)
          : Buffer.concat([this.#unread, next.value]);
    }
    const taken = this.#unread.subarray(0, count);
    this.#unread = this.#unread.subarray(count);
    this.#takenBytes += count;
    return taken;
  }

  async *rest(): AsyncGenerator<Uint8Array> {
    if (this.#unread.length > 0) yield this.#unread;
    for (;;) {
      const next = await this.#reader.next();
      if (next.done === true) return;
      yield next.value;
    }
  }
}
