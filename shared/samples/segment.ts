/**
 * How samples lie on a device's disk: what the agent's intake appends and the dataset reader
 * `samples` reads. Pure; knows no file and no recipe.
 *
 * A line's samples are files `<12 digits>.samples` in one folder, named by the index of their first
 * sample. The first text line of each is `stemma-samples 1`; every further one is
 *
 *     <CRC-32 of the JSON bytes, 8 lower-case hex digits> <space> <JSON of one sample> <newline>
 *
 * Appends are fsynced before they are acknowledged and nothing is ever rewritten: a line whose sum
 * does not match (a torn tail, a damaged sector) is passed over and counted; after a tear the writer
 * goes on in a new file. Indices only grow, are unique in a folder, and may have gaps.
 */
import { crc32 } from "node:zlib";

/** One sample. `split` was decided when it came in and never changes: held-out samples never train. */
export interface Sample {
  readonly index: number;
  /** When it was observed, ms since 1970. */
  readonly atMs: number;
  readonly split: "train" | "held-out";
  /** Class, target value, or null where there is none. */
  readonly label: number | string | null;
  /** Dimensions of `values` or `bytes`, row-major; absent: a vector. */
  readonly shape?: readonly number[];
  /** Numbers, or … */
  readonly values?: readonly number[];
  /** … unsigned bytes in base64 (images). */
  readonly bytes?: string;
  /** What brought it, so that nothing is taken in twice: "<hash of the batch>:<position>". */
  readonly source?: string;
}

export const segmentHeader = "stemma-samples 1\n";
export const segmentSuffix = ".samples";
/** Longest line that is written or read, in bytes. */
export const maxSampleBytes = 4 * 1024 * 1024;

export function segmentName(firstIndex: number): string { return `${String(firstIndex).padStart(12, "0")}${segmentSuffix}`; }
/** Index of the first sample of a segment by its file's name; undefined when it is no segment. */
export function segmentFirstIndex(name: string): number | undefined {
  return /^\d{12}\.samples$/.test(name) ? Number(name.slice(0, 12)) : undefined;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** The bytes of one sample's line. */
export function encodeSample(sample: Sample): Uint8Array {
  const json = encoder.encode(JSON.stringify(sample));
  const sum = encoder.encode(`${crc32(json).toString(16).padStart(8, "0")} `);
  const line = new Uint8Array(sum.length + json.length + 1);
  line.set(sum, 0);
  line.set(json, sum.length);
  line[line.length - 1] = 10;
  return line;
}

export interface DecodedSegment {
  readonly samples: readonly Sample[];
  /** Lines passed over because their sum, form or length is wrong. */
  readonly damaged: number;
  /** Whether the file ends in a whole, sound line, so that it may be appended to. */
  readonly clean: boolean;
}

/** Reads all sound samples of a segment's bytes. A file without the header (another format, or torn at birth) has none. */
export function decodeSegment(bytes: Uint8Array): DecodedSegment {
  const header = encoder.encode(segmentHeader);
  if (bytes.length < header.length || !header.every((byte, at) => bytes[at] === byte)) return { samples: [], damaged: bytes.length === 0 ? 0 : 1, clean: false };
  const samples: Sample[] = [];
  let damaged = 0;
  let lastSound = true;
  let start = header.length;
  while (start < bytes.length) {
    const newline = bytes.indexOf(10, start);
    const sample = newline < 0 ? undefined : decodeLine(bytes.subarray(start, newline));
    lastSound = sample !== undefined;
    if (sample === undefined) damaged++; else samples.push(sample);
    if (newline < 0) break;
    start = newline + 1;
  }
  return { samples, damaged, clean: lastSound };
}

function decodeLine(line: Uint8Array): Sample | undefined {
  if (line.length < 11 || line.length > maxSampleBytes || line[8] !== 32) return undefined;
  const json = line.subarray(9);
  try {
    if (decoder.decode(line.subarray(0, 8)) !== crc32(json).toString(16).padStart(8, "0")) return undefined;
    const value = JSON.parse(decoder.decode(json)) as Sample;
    return Number.isSafeInteger(value.index) && value.index >= 0 && (value.split === "train" || value.split === "held-out") ? value : undefined;
  } catch {
    return undefined;
  }
}
