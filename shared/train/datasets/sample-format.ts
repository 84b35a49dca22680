/**
 * The format in which a device stores samples: segment files that are only appended to. The agent's intake
 * writes them and the dataset reader `samples` reads them, both with the functions of this file.
 *
 * A segment is the 8 bytes "STEMSMP1", followed by records: length u32 LE ‖ CRC-32 of the payload u32 LE ‖
 * payload. The payload is UTF-8 JSON:
 *   {"id": "…", "timeMs": 1700000000000, "split": "train", "label": [0.93], "shape": [10, 3],
 *    "values": "base64 of float32 LE"}
 * A sample with named targets has "targets": {"mask": {"shape": [64, 64], "values": "base64 …"}}, and no label unless
 * one of its targets is the label; an unlabelled sample has neither.
 * A sample that a person removed leaves a record of the same length: {"removed": true}, padded with spaces, so
 * that the indices and lengths that trainings recorded stay valid.
 * A power loss can tear the end of a segment. Decoding stops at the first record that is incomplete or whose
 * checksum fails, and returns the number of good bytes, so that a writer can truncate the segment there and
 * append again.
 */
import { crc32 } from "node:zlib";
import { StemmaError } from "../../errors.js";
import { maxTargets, targetName } from "./target-form.js";

export const sampleSplits = ["train", "validation", "held-out"] as const;
export type SampleSplit = (typeof sampleSplits)[number];

export interface Sample {
  /** Unique within the device's line; 1 to 64 characters. */
  readonly id: string;
  /** Time of the measurement: milliseconds since 1970 by the device's clock. */
  readonly timeMs: number;
  /** Decided when the sample is received and never changed, so that held-out samples are never trained on. */
  readonly split: SampleSplit;
  /** [class index], or the numbers to predict; absent in a sample without a label. */
  readonly label?: readonly number[] | undefined;
  /** Named targets, for models with several outputs or with targets of a shape. */
  readonly targets?: Readonly<Record<string, SampleTarget>> | undefined;
  /** Shape of one input, without a batch dimension. */
  readonly shape: readonly number[];
  /** The numbers of the sample, finite, row-major. */
  readonly values: Float32Array;
}

export interface SampleTarget {
  /** [] for one number. */
  readonly shape: readonly number[];
  /** Finite numbers, row-major; class indices are whole numbers. */
  readonly values: Float32Array;
}

export const segmentSuffix = ".samples";
export const segmentMagic = new TextEncoder().encode("STEMSMP1");
export const maxSampleBytes = 4 * 1024 * 1024;
const maxLabelNumbers = 1024;
const maxSampleRank = 8;
const headerBytes = 8;

const invalid = (problem: string, details: Record<string, unknown> = {}): StemmaError =>
  new StemmaError(
    "SAMPLE_INVALID",
    `A sample was rejected: ${problem}. Send it again in the documented format.`,
    details,
  );

/**
 * Checks a sample from outside.
 * @throws SAMPLE_INVALID
 */
export function checkSample(sample: Sample): void {
  if (typeof sample.id !== "string" || sample.id.length < 1 || sample.id.length > 64)
    throw invalid("its id must have 1 to 64 characters");
  if (!Number.isSafeInteger(sample.timeMs)) throw invalid("its timeMs must be whole milliseconds since 1970");
  if (!sampleSplits.includes(sample.split))
    throw invalid(`its split must be one of ${sampleSplits.join(", ")}`);
  if (
    sample.label !== undefined &&
    (!Array.isArray(sample.label) ||
      sample.label.length < 1 ||
      sample.label.length > maxLabelNumbers ||
      !sample.label.every((value) => Number.isFinite(value)))
  )
    throw invalid(`its label must be 1 to ${maxLabelNumbers} finite numbers`);
  checkValues(sample, "its");
  const targets = Object.entries(sample.targets ?? {});
  if (targets.length > maxTargets) throw invalid(`it has ${targets.length} targets, more than ${maxTargets}`);
  for (const [name, target] of targets) {
    if (!targetName.test(name))
      throw invalid(
        `the name of its target ${JSON.stringify(name.slice(0, 80))} must be 1 to 64 of A-Z a-z 0-9 _ -`,
      );
    checkValues(target, `targets.${name}: its`);
  }
  const bytes = targets.reduce((sum, [, { values }]) => sum + 4 * values.length, 4 * sample.values.length);
  if (bytes > maxSampleBytes)
    throw invalid(`its values and targets need ${bytes} bytes, more than ${maxSampleBytes}`);
}

/** Checks an array of a sample. @throws SAMPLE_INVALID */
function checkValues({ shape, values }: SampleTarget, whose: string): void {
  if (
    !Array.isArray(shape) ||
    shape.length > maxSampleRank ||
    !shape.every((dimension) => Number.isSafeInteger(dimension) && dimension > 0)
  )
    throw invalid(`${whose} shape must be at most ${maxSampleRank} whole numbers above 0`);
  const length = shape.reduce<number>((product, dimension) => product * dimension, 1);
  if (length * 4 > maxSampleBytes)
    throw invalid(`${whose} values need ${length * 4} bytes, more than ${maxSampleBytes}`);
  if (!(values instanceof Float32Array) || values.length !== length)
    throw invalid(`${whose} shape [${shape.join(", ")}] needs ${length} values, it has ${values?.length}`);
  if (!values.every((value) => Number.isFinite(value)))
    throw invalid(`${whose} values must be finite numbers`);
}

/**
 * Encodes a sample as a record, to be appended to a segment.
 * @throws SAMPLE_INVALID
 */
export function encodeSample(sample: Sample): Uint8Array {
  checkSample(sample);
  const { targets } = sample;
  const payload = Buffer.from(
    JSON.stringify({
      id: sample.id,
      timeMs: sample.timeMs,
      split: sample.split,
      label: sample.label,
      ...(targets === undefined
        ? {}
        : {
            targets: Object.fromEntries(
              Object.entries(targets).map(([name, { shape, values }]) => [
                name,
                { shape, values: base64Of(values) },
              ]),
            ),
          }),
      shape: sample.shape,
      values: base64Of(sample.values),
    }),
    "utf8",
  );
  const record = Buffer.alloc(headerBytes + payload.length);
  record.writeUInt32LE(payload.length, 0);
  record.writeUInt32LE(crc32(payload), 4);
  payload.copy(record, headerBytes);
  return record;
}

function base64Of(values: Float32Array): string {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => {
    bytes.writeFloatLE(value, index * 4);
  });
  return bytes.toString("base64");
}

export interface DecodedSegment {
  /** The samples of all complete records; undefined for one that was removed. */
  readonly records: readonly (Sample | undefined)[];
  /** Number of bytes up to the end of the last complete record. */
  readonly goodBytes: number;
  /** True if anything follows the good bytes. */
  readonly torn: boolean;
}

/**
 * Decodes a segment up to its first torn or damaged record.
 * @throws SAMPLE_INVALID when a record with a correct checksum is not a sample
 */
export function decodeSegment(bytes: Uint8Array): DecodedSegment {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < segmentMagic.length || !buffer.subarray(0, segmentMagic.length).equals(segmentMagic))
    return { records: [], goodBytes: 0, torn: buffer.length > 0 };
  const records: (Sample | undefined)[] = [];
  let offset = segmentMagic.length;
  while (offset + headerBytes <= buffer.length) {
    const length = buffer.readUInt32LE(offset);
    // No record is empty. A power loss can leave zeros in an unwritten tail, and their checksum would be
    // correct.
    if (length === 0 || length > maxSampleBytes * 2 || offset + headerBytes + length > buffer.length) break;
    const payload = buffer.subarray(offset + headerBytes, offset + headerBytes + length);
    if (crc32(payload) !== buffer.readUInt32LE(offset + 4)) break;
    records.push(isRemoved(payload) ? undefined : decodePayload(payload));
    offset += headerBytes + length;
  }
  return { records, goodBytes: offset, torn: offset < buffer.length };
}

/** The samples of a decoded segment that were not removed. */
export function samplesOf({ records }: DecodedSegment): Sample[] {
  return records.filter((record) => record !== undefined);
}

const removedText = '{"removed":true}';

function isRemoved(payload: Buffer): boolean {
  return (
    payload.length >= removedText.length &&
    payload.toString("latin1", 0, removedText.length) === removedText &&
    payload.subarray(removedText.length).every((byte) => byte === 0x20)
  );
}

/**
 * A segment without the content of some samples; its length and the positions of all others stay.
 * @param positions of the records to remove, counted from 0; others than complete records are ignored
 */
export function withoutRecords(segment: Uint8Array, positions: ReadonlySet<number>): Uint8Array {
  const result = Buffer.from(segment);
  const { records } = decodeSegment(segment);
  let offset = segmentMagic.length;
  for (let at = 0; at < records.length; at++) {
    const length = result.readUInt32LE(offset);
    if (positions.has(at)) {
      const payload = result.subarray(offset + headerBytes, offset + headerBytes + length);
      payload.fill(0x20).write(removedText, "latin1");
      result.writeUInt32LE(crc32(payload), offset + 4);
    }
    offset += headerBytes + length;
  }
  return result;
}

function decodePayload(payload: Buffer): Sample {
  let record: Record<string, unknown>;
  try {
    record = JSON.parse(payload.toString("utf8")) as Record<string, unknown>;
  } catch (cause) {
    throw invalid("its record is not valid JSON", { cause });
  }
  if (typeof record !== "object" || record === null || typeof record["values"] !== "string")
    throw invalid("its record has no values");
  const targets = targetsOf(record["targets"]);
  const sample = {
    id: record["id"],
    timeMs: record["timeMs"],
    split: record["split"],
    ...(record["label"] === undefined ? {} : { label: record["label"] as readonly number[] }),
    ...(targets === undefined ? {} : { targets }),
    shape: record["shape"],
    values: floatsOf(record["values"]),
  } as Sample;
  checkSample(sample);
  return sample;
}

function targetsOf(value: unknown): Sample["targets"] {
  if (value === undefined) return undefined;
  if (typeof value !== "object" || value === null) throw invalid("its targets are not an object");
  return Object.fromEntries(
    Object.entries(value).map(([name, target]: [string, unknown]): [string, SampleTarget] => {
      const { shape, values } = (target ?? {}) as { readonly shape?: number[]; readonly values?: unknown };
      if (shape === undefined || typeof values !== "string")
        throw invalid(`its target ${JSON.stringify(name.slice(0, 80))} has no shape or no values`);
      return [name, { shape, values: floatsOf(values) }];
    }),
  );
}

function floatsOf(base64: string): Float32Array {
  const raw = Buffer.from(base64, "base64");
  if (raw.length % 4 !== 0)
    throw invalid(`its values have ${raw.length} bytes, which is not a multiple of 4`);
  const values = new Float32Array(raw.length / 4);
  for (let index = 0; index < values.length; index++) values[index] = raw.readFloatLE(index * 4);
  return values;
}
