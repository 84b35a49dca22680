/** Numbers of messages. That the generated code belongs to stemma.proto: test/unit/launcher/proto.slow.test.ts. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decodeEnvelope } from "../../../../shared/wire/codec.js";
import { checkout } from "../../../helpers/launcher-modules.js";

test("no message has a number that is allotted to later releases", () => {
  const proto = readFileSync(join(checkout, "shared/wire/stemma.proto"), "utf8");
  const envelope = /message Envelope \{([^]*?)\n\}/.exec(proto)?.[1] ?? "";
  assert.match(envelope, /reserved 32, 33, 35 to 37, 39 to 49;/);
  const numbers = [...envelope.matchAll(/= ([0-9]+);/g)].map(([, number]) => Number(number));
  assert.ok(numbers.length > 20);
  assert.deepEqual(
    numbers.filter((number) => number >= 32 && number <= 49),
    [34, 38],
  );
  const page = readFileSync(join(checkout, "docs/protocol.md"), "utf8");
  const listed = [...page.matchAll(/^\| (3[2-9]|4[0-9])[^|]*\|/gm)].flatMap(([row]) =>
    (row.match(/(?<![0-9])[34][0-9](?= `| to|, | \|)/g) ?? []).map(Number),
  );
  assert.deepEqual(listed.slice(0, 11), [32, 33, 44, 35, 36, 37, 39, 40, 41, 42, 43]);
});

test("a message of an unknown type is an error with a code, never a message of another type", () => {
  // Field 40, length-delimited, empty; protocol 1.
  const newer = Buffer.from([0x08, 0x01, 0xc2, 0x02, 0x00]);
  assert.throws(() => decodeEnvelope(newer), { code: "ENVELOPE_MALFORMED" });
});
