/**
 * TensorBoard's event files: TFRecords (length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes), each
 * an `Event` of protocol buffers, of which only the scalars are read.
 */
import { open, type FileHandle } from "node:fs/promises";
import protobuf from "protobufjs/minimal.js";
import { fileError } from "../../../../shared/files/file-error.js";
import { crc32c } from "./crc32c.js";
import { logInvalid } from "./lines.js";
import type { LogReader, LogRow } from "./log-reader.js";

/** Longer events are pictures and graphs, which are skipped. */
const maxEventBytes = 1024 * 1024;

export const tensorboardReader: LogReader = {
  name: "TensorBoard's event files",
  matches: (fileName, first) => /\.tfevents\./.test(fileName) || isRecord(first),
  read: async function* (path) {
    const file = await open(path, "r").catch((error: unknown) => {
      throw fileError(error, "open", path);
    });
    try {
      for await (const event of eventsIn(file, path)) {
        const row = rowOf(event, path);
        if (row.size > 1) yield row;
      }
    } finally {
      await file.close();
    }
  },
};

function isRecord(first: Buffer): boolean {
  return first.length >= 12 && first.readUInt32LE(8) === masked(first.subarray(0, 8));
}

/** TFRecord's masking, so that a CRC over bytes with CRCs in them stays good. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return ((((crc >>> 15) | (crc << 17)) >>> 0) + 0xa282ead8) >>> 0;
}

async function* eventsIn(file: FileHandle, path: string): AsyncGenerator<Buffer> {
  const { size } = await file.stat();
  for (let at = 0; at + 12 <= size;) {
    const head = await readAt(file, at, 12);
    if (!isRecord(head)) throw logInvalid(path, `the record at byte ${at} is damaged`);
    const length = head.readBigUInt64LE(0);
    const end = BigInt(at) + 16n + length;
    if (end > BigInt(size)) return; // its writer was killed
    if (length <= BigInt(maxEventBytes)) {
      const bytes = await readAt(file, at + 12, Number(length) + 4);
      const event = bytes.subarray(0, -4);
      if (bytes.readUInt32LE(event.length) !== masked(event))
        throw logInvalid(path, `the record at byte ${at} is damaged`);
      yield event;
    }
    at = Number(end);
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

/** The scalars of an Event (step = 2, summary = 5 with values = 1), and its step. */
function rowOf(event: Uint8Array, path: string): LogRow {
  const row = new Map<string, number | null>();
  let step = 0;
  try {
    eachField(event, (field, reader) => {
      if (field === 2) step = Number(reader.int64());
      else if (field === 5)
        eachField(reader.bytes(), (inner, summary) => {
          if (inner === 1) addScalar(row, summary.bytes());
          else return false;
          return true;
        });
      else return false;
      return true;
    });
  } catch (cause) {
    throw logInvalid(path, `an event is not one of TensorBoard: ${(cause as Error).message}`);
  }
  return row.set("step", step);
}

/** A Summary.Value: tag = 1, simple_value = 2, tensor = 8. */
function addScalar(row: Map<string, number | null>, bytes: Uint8Array): void {
  let tag = "";
  let value: number | undefined;
  eachField(bytes, (field, reader) => {
    if (field === 1) tag = reader.string();
    else if (field === 2) value = reader.float();
    else if (field === 8) value = scalarOfTensor(reader.bytes());
    else return false;
    return true;
  });
  if (tag !== "" && value !== undefined) row.set(tag, Number.isFinite(value) ? value : null);
}

/** A TensorProto of one number: dtype = 1 (1: float, 2: double), tensor_content = 4, float_val = 5, double_val = 6. */
function scalarOfTensor(bytes: Uint8Array): number | undefined {
  let dtype = 0;
  let content: Buffer = Buffer.alloc(0);
  eachField(bytes, (field, reader, wireType) => {
    if (field === 1) dtype = reader.int32();
    else if (field >= 4 && field <= 6 && wireType === 2) content = Buffer.from(reader.bytes());
    else return false;
    return true;
  });
  if (dtype === 1 && content.length === 4) return content.readFloatLE();
  return dtype === 2 && content.length === 8 ? content.readDoubleLE() : undefined;
}

/** @param read whether it read the field; others are skipped */
function eachField(
  bytes: Uint8Array,
  read: (field: number, reader: protobuf.Reader, wireType: number) => boolean,
): void {
  const reader = protobuf.Reader.create(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (!read(tag >>> 3, reader, tag & 7)) reader.skipType(tag & 7);
  }
}
