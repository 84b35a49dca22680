/**
 * The body of an import: a length (u32, little-endian), that many bytes of JSON (the options, with
 * attachments as base64), then the safetensors files as they are: checkpoints and the optimizer's state in the
 * order of the options' `parts`, then the model's. So an import is one request, of which only the
 * options are held in memory.
 */
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import type { ImportOptions, LocalFile } from "../api/server-operations.js";
import { importOptions, maxImportOptionsBytes } from "../api/import-schemas.js";
import * as z from "zod";

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
  const reader = body[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  const readAtLeast = async (count: number): Promise<void> => {
    while (held.length < count) {
      const next = await reader.next();
      if (next.done === true)
        throw new StemmaError(
          "HTTP_REQUEST_INVALID",
          `The import ended after ${held.length} bytes, before its options were complete. Send it again with the stemma command, or as plain safetensors with ?name=.`,
        );
      held =
        held.length === 0
          ? Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength)
          : Buffer.concat([held, next.value]);
    }
  };
  await readAtLeast(4);
  const length = held.readUInt32LE(0);
  if (length > maxImportOptionsBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `The import's options state a length of ${length} bytes; at most ${maxImportOptionsBytes} are allowed. Leave large attachments out.`,
      { length },
    );
  await readAtLeast(4 + length);
  let json: unknown;
  try {
    json = JSON.parse(held.toString("utf8", 4, 4 + length));
  } catch (cause) {
    throw new StemmaError(
      "HTTP_REQUEST_INVALID",
      "The import's options are not JSON. Send it again with the stemma command, or as plain safetensors with ?name=.",
      { cause },
    );
  }
  const parsed = importOptions.safeParse(json);
  if (!parsed.success)
    throw new StemmaError(
      "HTTP_REQUEST_INVALID",
      `The import's options are not valid: ${z.prettifyError(parsed.error)}`,
      {},
    );
  const { attachments, localFile, ...rest } = parsed.data;
  const first = held.subarray(4 + length);
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
    file: (async function* () {
      if (first.length > 0) yield first;
      for (;;) {
        const next = await reader.next();
        if (next.done === true) return;
        yield next.value;
      }
    })(),
  };
}
