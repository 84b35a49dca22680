/** Profiles of randomness: what lies or is damaged is refused, and a replay's first divergence is named. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decodeProfile,
  decodeRecords,
  encodeProfile,
  firstDivergence,
  summarize,
} from "../../../../../shared/determinism/reproduce/random-profile.js";
import { isStemmaError } from "../../../../../shared/errors.js";

interface Made {
  readonly kind: number;
  readonly process?: number;
  /** The number of the thread. */
  readonly stream?: number;
  readonly value?: string;
  readonly name?: string;
  readonly flags?: number;
  /** A length that lies. */
  readonly length?: number;
}
const process: Made = { kind: 6, name: "train", flags: 1 };

/** As recorder.c writes it. */
function recordOf({
  kind,
  process: of = 1,
  stream = 1,
  value = "",
  name = "libc.so.6",
  flags = 0,
  length,
}: Made): Buffer {
  const header = Buffer.alloc(64);
  header.writeUInt32LE(of, 0);
  header.writeUInt32LE(stream, 8);
  header.writeUInt32LE(length ?? value.length, 16);
  header[20] = kind;
  header[21] = flags;
  header.write(name.slice(0, 40), 24);
  return Buffer.concat([header, Buffer.from(value)]);
}
const bytesOf = (...records: readonly Made[]): Buffer => Buffer.concat(records.map(recordOf));
const decoded = (...records: readonly Made[]) => decodeRecords(bytesOf(...records), "it");
const isInvalid = (error: unknown): boolean => isStemmaError(error, "RANDOM_PROFILE_INVALID");

test("a profile is read back, and every cut and flipped byte is found", () => {
  const records = bytesOf(process, { kind: 1, value: "secret" });
  const file = Buffer.from(encodeProfile(records));
  assert.deepEqual(decodeProfile(file, "it"), records);
  for (let at = 0; at < file.length; at++) {
    assert.throws(() => decodeProfile(file.subarray(0, at), "it"), isInvalid, `cut at ${at}`);
    const flipped = Buffer.from(file);
    flipped[at] = (flipped[at] as number) ^ 4;
    assert.throws(() => decodeProfile(flipped, "it"), isInvalid, `byte ${at}`);
  }
});

test("records that lie are refused although their sum is right", () => {
  const lies: readonly Made[][] = [
    [process, { kind: 1, length: 0xffffffff }],
    [process, { kind: 1, value: "12", length: 3 }],
    [process, { kind: 0 }],
    [process, { kind: 9 }],
    [{ kind: 1, value: "1" }],
  ];
  for (const lie of lies)
    assert.throws(() => decodeProfile(Buffer.from(encodeProfile(bytesOf(...lie))), "it"), isInvalid);
  assert.throws(() => decodeProfile(Buffer.from(encodeProfile(Buffer.alloc(0))), "it"), isInvalid);
});

test("calls are counted by kind and library", () => {
  const found = summarize(
    decoded(
      process,
      { kind: 1, value: "1234" },
      { kind: 1, value: "56" },
      { kind: 8 },
      { kind: 7, name: "libtorch.so" },
    ),
  );
  assert.deepEqual(found.calls, [{ kind: "getrandom", library: "libc.so.6", count: 2, bytes: 6 }]);
  assert.deepEqual(
    [found.processes, found.threads, found.draws, found.libraries],
    [1, 1, 2, ["libtorch.so"]],
  );
  assert.equal(found.hasFixedAddresses, true);
  // A copy by fork has no record of a program of its own.
  assert.equal(summarize(decoded(process, { kind: 1, process: 2, value: "1" })).processes, 2);
  assert.equal(summarize(decoded(process, { ...process, flags: 0 })).hasFixedAddresses, false);
});

test("a replay diverges by size, order, more or fewer, and not by the order of threads", () => {
  const one: Made = { kind: 1, value: "1234" };
  const other: Made = { kind: 2, stream: 2, value: "56" };
  const recorded = decoded(process, one, other);
  const placeOf = (...replayed: readonly Made[]): string =>
    firstDivergence(recorded, decoded(process, ...replayed)) ?? "none";
  assert.equal(placeOf(other, one), "none");
  assert.equal(placeOf(one, other, { kind: 8 }), "none");
  assert.match(placeOf({ ...one, value: "123" }, other), /draw 1 of stream 0 .*4 bytes.*3 bytes/);
  assert.match(placeOf({ ...one, kind: 4 }, other), /recorded getrandom .* replayed arc4random/);
  assert.match(placeOf(one), /draw 0 of stream 1 .*replayed nothing/);
  assert.match(placeOf(one, one, other), /draw 2 of stream 0 .*recorded nothing/);
  assert.match(placeOf({ ...one, value: "9999" }, other), /draw 1 of stream 0/, "another value");
});
