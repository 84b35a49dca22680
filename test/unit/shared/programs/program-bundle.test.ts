/** Recorded programs as bytes: whatever is encoded is read again, and nothing hostile leads out of its folder. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import fc from "fast-check";
import { isStemmaError } from "../../../../shared/errors.js";
import { encodeCanonical, type CanonicalValue } from "../../../../shared/model/canonical-json.js";
import {
  decodeProgram,
  encodeProgram,
  maxProgramBytes,
  placeProgram,
  type Program,
} from "../../../../shared/programs/program-bundle.js";

const file = { path: "a/b.py", byteLength: 2, executable: false };
const manifest = {
  exec: [{ interpreter: "python3" }, { file: 0 }],
  files: [file],
  variables: {},
  withheld: [],
};

function bytesOf(value: CanonicalValue, content = "ab", format = 1): Uint8Array {
  const json = encodeCanonical(value, {});
  const header = Buffer.alloc(16);
  header.write("STEMPROG", "latin1");
  header.writeUInt32LE(format, 8);
  header.writeUInt32LE(json.length, 12);
  return new Uint8Array(Buffer.concat([header, json, Buffer.from(content)]));
}

const refuses = (bytes: Uint8Array): void => {
  assert.throws(
    () => decodeProgram(bytes),
    (error) => isStemmaError(error, "PROGRAM_INVALID"),
  );
};

describe("a recorded program", () => {
  it("is read as it was written", () => {
    const part = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,8}$/);
    fc.assert(
      fc.property(
        fc.uniqueArray(
          fc.record(
            { path: part, bytes: fc.uint8Array({ maxLength: 50 }), isExecutable: fc.boolean() },
            { noNullPrototype: true },
          ),
          {
            selector: ({ path }) => path,
            maxLength: 6,
          },
        ),
        fc.array(fc.string({ maxLength: 20 }).filter((text) => !/[\0\p{Cs}]/u.test(text))),
        (files, texts) => {
          const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
          const program: Program = {
            exec: [{ interpreter: "sh" }, ...texts.slice(0, 20).map((text) => ({ text }))],
            files: sorted,
            lock: sorted.length === 0 ? undefined : 0,
            variables: { MODE: "fast" },
            withheld: ["TOKEN"],
          };
          assert.deepEqual(decodeProgram(encodeProgram(program)), program);
          const recorded = { ...program, recordsRandomness: true };
          const bytes = encodeProgram(recorded);
          assert.deepEqual(decodeProgram(bytes), recorded);
          // A release that knows format 1 alone would run it without what it drew.
          assert.equal(bytes[8], 2);
        },
      ),
    );
  });

  it("is refused where it is hostile", () => {
    decodeProgram(bytesOf(manifest));
    for (const path of [
      "../x",
      "/x",
      "a/../x",
      "a//b",
      "",
      ".",
      "a\\b",
      "a\u001bb",
      "\u202eab",
      "x".repeat(241),
    ])
      refuses(bytesOf({ ...manifest, files: [{ ...file, path }] }));
    for (const changed of [
      { exec: [] },
      { exec: [{ text: "sh" }] },
      { exec: [{ interpreter: "../sh" }] },
      { exec: [{ file: 0 }] },
      { exec: [{ interpreter: "sh" }, { file: 1 }] },
      { exec: [{ interpreter: "sh" }, { file: 0, text: "a" }] },
      { exec: [{ interpreter: "sh" }, { text: "a\0b" }] },
      { exec: Array.from({ length: 65 }, () => ({ interpreter: "sh" })) },
      { files: [{ ...file, byteLength: 3 }] },
      { files: [{ ...file, byteLength: 1 }] },
      { files: [{ ...file, byteLength: -1 }] },
      {
        files: [
          { ...file, byteLength: 1 },
          { ...file, byteLength: 1 },
        ],
      },
      {
        files: [
          { ...file, path: "a", byteLength: 1 },
          { ...file, byteLength: 1 },
        ],
      },
      { lock: 1 },
      { variables: { "A B": "x" } },
      { withheld: [1] },
      { more: 1 },
    ])
      refuses(bytesOf({ ...manifest, ...changed }));
    const good = bytesOf(manifest);
    refuses(bytesOf(manifest, "ab", 2));
    for (let length = 0; length < good.length; length++) refuses(good.subarray(0, length));
    refuses(new Uint8Array(maxProgramBytes + 1));
  });

  it("is placed in a new folder, with the interpreter of this machine", async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-program-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const place = join(folder, "program");
    const program = decodeProgram(bytesOf(manifest));
    assert.deepEqual(await placeProgram(program, place, "/usr/bin/python3"), [
      "/usr/bin/python3",
      join(place, "a/b.py"),
    ]);
    assert.equal(await readFile(join(place, "a/b.py"), "latin1"), "ab");
    assert.equal((await stat(join(place, "a/b.py"))).mode & 0o777, 0o400);
    await assert.rejects(placeProgram(program, place, "/usr/bin/python3"), { code: "FILE_FAILED" });
  });
});
