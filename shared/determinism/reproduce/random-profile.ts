/**
 * Profiles of randomness (CH §3.6, CH4): the records that recorder.c writes, one for each draw, and the file that keeps
 * them. Another program wrote them: everything is checked before it is used. Pure.
 */
import { StemmaError } from "../../errors.js";
import { sha256 } from "../../tensor/hash.js";

/** Kinds by their numbers in recorder.c. */
const kinds = [
  undefined,
  "getrandom",
  "/dev/urandom",
  "std::random_device",
  "arc4random",
  "syscall(getrandom)",
  "process",
  "library",
  "thread",
] as const;
export type RecordKind = NonNullable<(typeof kinds)[number]>;

export interface RandomRecord {
  /** The process and the thread that drew, by the order of their creation. */
  readonly stream: string;
  readonly kind: RecordKind;
  readonly flags: number;
  /** The library that drew or made a thread, the program of a process, or the library that was loaded. */
  readonly name: string;
  readonly value: Uint8Array;
}

const headerBytes = 64;
const maxValueBytes = 1024 * 1024;
const magic = Buffer.from("stemma-randomness 1\n");
const sumBytes = 32;
/** The recorder ends the program at so many bytes of records; the last one may go past it. */
export const maxRecordedBytes = 64 * 1024 * 1024;
export const maxProfileBytes = maxRecordedBytes + headerBytes + maxValueBytes + magic.length + sumBytes;
const fixedAddresses = 1;

/** @throws RANDOM_PROFILE_INVALID */
export function decodeRecords(bytes: Buffer, where: string): readonly RandomRecord[] {
  const records: RandomRecord[] = [];
  for (let at = 0; at < bytes.length;) {
    if (at + headerBytes > bytes.length) throw invalid(where, `a record at byte ${at} is cut`);
    const length = bytes.readUInt32LE(at + 16);
    const kind = kinds[bytes[at + 20] as number];
    const end = at + headerBytes + length;
    if (kind === undefined || length > maxValueBytes || end > bytes.length)
      throw invalid(where, `the record at byte ${at} cannot be one`);
    const name = bytes.subarray(at + 24, at + headerBytes);
    const nameEnd = name.indexOf(0);
    records.push({
      stream: bytes.toString("hex", at, at + 16),
      kind,
      flags: bytes[at + 21] as number,
      name: name.toString("utf8", 0, nameEnd < 0 ? name.length : nameEnd).replaceAll("\n", " "),
      value: bytes.subarray(at + headerBytes, end),
    });
    at = end;
  }
  if (records[0]?.kind !== "process") throw invalid(where, "it does not begin with a process");
  return records;
}

/** A profile as a file: the records between a mark and their SHA-256, which finds damage. */
export function encodeProfile(records: Uint8Array): Uint8Array {
  return Buffer.concat([magic, records, Buffer.from(sha256(magic, records), "hex")]);
}

/** The bytes of the records. @throws RANDOM_PROFILE_INVALID */
export function decodeProfile(bytes: Buffer, where: string): Buffer {
  if (!bytes.subarray(0, magic.length).equals(magic))
    throw invalid(where, "it is another file, or a profile of another release");
  const end = bytes.length - sumBytes;
  const records = bytes.subarray(magic.length, Math.max(end, magic.length));
  if (end < magic.length || sha256(magic, records) !== bytes.toString("hex", end))
    throw invalid(where, "it is cut or damaged");
  decodeRecords(records, where);
  return records;
}

function invalid(where: string, reason: string): StemmaError {
  return new StemmaError(
    "RANDOM_PROFILE_INVALID",
    `${where} is not a whole profile of randomness: ${reason}. Record the run again.`,
    { where },
  );
}

const isDraw = ({ kind }: RandomRecord): boolean => !["process", "library", "thread"].includes(kind);

/** Hexadecimal digits of a stream that name its process: the copies that a program forks are others. */
const processDigits = 16;

export interface RandomSummary {
  /** Programs that were run, and copies of them that drew something or made a thread. */
  readonly processes: number;
  /** Threads that were made beside the first one of each process. */
  readonly threads: number;
  readonly draws: number;
  readonly bytes: number;
  readonly calls: readonly RandomCall[];
  /** Names of libraries that were loaded in programs that ended by themselves. */
  readonly libraries: readonly string[];
  readonly programs: readonly string[];
  /** True if no process had addresses that were chosen at random. */
  readonly hasFixedAddresses: boolean;
}

/** Draws of one kind by one library (CH §3.4; CH11: the calls and how often each was made). */
export interface RandomCall {
  readonly kind: RecordKind;
  readonly library: string;
  readonly count: number;
  readonly bytes: number;
}

export function summarize(records: readonly RandomRecord[]): RandomSummary {
  const calls = new Map<string, { kind: RecordKind; library: string; count: number; bytes: number }>();
  for (const { kind, name, value } of records.filter(isDraw)) {
    const key = `${kind} ${name}`;
    const call = calls.get(key) ?? { kind, library: name, count: 0, bytes: 0 };
    calls.set(key, call);
    call.count++;
    call.bytes += value.length;
  }
  const of = (kind: RecordKind): readonly RandomRecord[] => records.filter((each) => each.kind === kind);
  const namesOf = (kind: RecordKind): readonly string[] => [...new Set(of(kind).map(({ name }) => name))];
  const sorted = [...calls.values()].sort((one, other) => other.count - one.count);
  return {
    processes: new Set(records.map(({ stream }) => stream.slice(0, processDigits))).size,
    threads: of("thread").length,
    draws: sorted.reduce((sum, { count }) => sum + count, 0),
    bytes: sorted.reduce((sum, { bytes }) => sum + bytes, 0),
    calls: sorted,
    libraries: namesOf("library"),
    programs: namesOf("process"),
    hasFixedAddresses: of("process").every(({ flags }) => (flags & fixedAddresses) !== 0),
  };
}

/**
 * The first place where a replay drew otherwise than its recording, in words; undefined where every draw was replayed.
 * Streams are compared one by one: the order in which threads and processes run may be another.
 */
export function firstDivergence(
  recorded: readonly RandomRecord[],
  replayed: readonly RandomRecord[],
): string | undefined {
  const [own, other] = [streamsOf(recorded), streamsOf(replayed)];
  for (const [number, stream] of [...new Set([...own.keys(), ...other.keys()])].entries()) {
    const [before, now] = [own.get(stream) ?? [], other.get(stream) ?? []];
    for (let at = 0; at < Math.max(before.length, now.length); at++) {
      const [one, another] = [before[at], now[at]];
      if (one?.kind === another?.kind && Buffer.compare(valueOf(one), valueOf(another)) === 0) continue;
      const program = before[0]?.name ?? now[0]?.name ?? "";
      return `draw ${at} of stream ${number} (${program}): recorded ${drawText(one)}, replayed ${drawText(another)}`;
    }
  }
  return undefined;
}

const valueOf = (record: RandomRecord | undefined): Uint8Array => record?.value ?? new Uint8Array();
const drawText = (record: RandomRecord | undefined): string =>
  record === undefined ? "nothing" : `${record.kind} of ${record.value.length} bytes by ${record.name}`;

function streamsOf(records: readonly RandomRecord[]): ReadonlyMap<string, readonly RandomRecord[]> {
  const streams = new Map<string, RandomRecord[]>();
  for (const record of records.filter((each) => isDraw(each) || each.kind === "process")) {
    const own = streams.get(record.stream);
    if (own === undefined) streams.set(record.stream, [record]);
    else own.push(record);
  }
  return streams;
}
