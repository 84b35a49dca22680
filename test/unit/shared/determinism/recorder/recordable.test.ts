/** Programs that a recorder below the C library cannot reach are refused by their headers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  requireRecordable,
  whyNotRecordable,
} from "../../../../../shared/determinism/recorder/recordable.js";
import { isStemmaError } from "../../../../../shared/errors.js";

function elf(
  segments: readonly number[],
  { bits = 2, machine = process.arch === "arm64" ? 183 : 62 } = {},
): Buffer {
  const header = Buffer.alloc(64 + segments.length * 56);
  header.writeUInt32BE(0x7f454c46, 0);
  header.set([bits, 1], 4);
  header.writeUInt16LE(machine, 18);
  header.writeBigUInt64LE(64n, 32);
  header.writeUInt16LE(56, 54);
  header.writeUInt16LE(segments.length, 56);
  for (const [at, type] of segments.entries()) header.writeUInt32LE(type, 64 + at * 56);
  return header;
}

test("a program is recordable if it names a loader and is for this machine and user", () => {
  assert.equal(whyNotRecordable(elf([6, 3, 1]), 0o755), undefined);
  assert.match(whyNotRecordable(elf([1, 2, 1]), 0o755) ?? "", /statically linked/);
  assert.match(whyNotRecordable(elf([3]), 0o4755) ?? "", /another user/);
  assert.match(whyNotRecordable(elf([3], { bits: 1 }), 0o755) ?? "", /another kind of processor/);
  assert.match(whyNotRecordable(elf([3], { machine: 8 }), 0o755) ?? "", /another kind of processor/);
  assert.match(whyNotRecordable(Buffer.from("hello"), 0o755) ?? "", /not a program/);
  const endless = elf([1]);
  endless.writeBigUInt64LE(2n ** 63n, 32);
  endless.writeUInt16LE(0xffff, 56);
  assert.match(whyNotRecordable(endless, 0o755) ?? "", /statically linked/);
});

test("of Stemma itself there is nothing to record, and why is said", async () => {
  for (const command of [
    ["stemma", "model", "train"],
    ["./stemma-agent", "run"],
    ["node", "dist/stemma", "model"],
  ])
    await assert.rejects(requireRecordable(command), (error: unknown) => {
      assert.match((error as Error).message, /draws every random number from a seed that it records/);
      return isStemmaError(error, "USAGE");
    });
  await assert.rejects(requireRecordable(["no-such-program"]), (error: unknown) =>
    isStemmaError(error, "NOT_FOUND"),
  );
});
