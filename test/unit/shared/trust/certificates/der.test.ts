/** DER is read in its one form only: lengths, object identifiers, numbers and times at their bounds. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  derTags,
  derTimeMs,
  derValues,
  integerHex,
  objectIdOf,
  onlyDerValue,
} from "../../../../../shared/trust/certificates/der.js";

const refused = { code: "CERTIFICATE_REFUSED" };
const hex = (text: string): Uint8Array => Buffer.from(text, "hex");

/** A value with its length in so many bytes; 0: in the short form. */
function withLength(length: number, lengthBytes: number): Uint8Array {
  const head = Buffer.alloc(lengthBytes);
  if (lengthBytes > 0) head.writeUIntBE(length, 0, lengthBytes);
  const first = lengthBytes === 0 ? length : 0x80 | lengthBytes;
  return Buffer.concat([Buffer.of(derTags.octetString, first), head, Buffer.alloc(length)]);
}

describe("lengths", () => {
  it("are read in their shortest form, and in no longer one", () => {
    for (const [length, lengthBytes] of [
      [0, 0],
      [127, 0],
      [128, 1],
      [255, 1],
      [256, 2],
      [65535, 2],
      [65536, 3],
      [2 ** 24, 4],
    ] as const) {
      assert.equal(onlyDerValue(withLength(length, lengthBytes), derTags.octetString).content.length, length);
      if (lengthBytes < 4)
        assert.throws(() => onlyDerValue(withLength(length, lengthBytes + 1), derTags.octetString), refused);
    }
    assert.throws(() => onlyDerValue(hex("0480"), derTags.octetString), refused, "indefinite");
    assert.throws(() => onlyDerValue(hex("04850100000000"), derTags.octetString), refused, "five bytes");
  });

  it("end with the bytes that are there", () => {
    for (const cut of ["", "04", "0401", "048180", "04820100"])
      assert.throws(() => onlyDerValue(hex(cut), derTags.octetString), refused, cut);
    assert.throws(() => onlyDerValue(hex("04010000"), derTags.octetString), refused, "more bytes");
    assert.throws(() => onlyDerValue(hex("040100"), derTags.integer), refused, "another tag");
    assert.throws(() => onlyDerValue(hex("1f0100"), 0x1f), refused, "a long tag");
  });
});

it("lists have at most 1024 values", () => {
  assert.equal(derValues(Buffer.alloc(2 * 1024, hex("0500"))).length, 1024);
  assert.throws(() => derValues(Buffer.alloc(2 * 1025, hex("0500"))), refused);
  assert.deepEqual(derValues(new Uint8Array()), []);
});

describe("object identifiers", () => {
  it("are read with parts of several bytes, and of each root", () => {
    assert.equal(objectIdOf(hex("2a8648ce3d040302")), "1.2.840.10045.4.3.2");
    assert.equal(objectIdOf(hex("551d25")), "2.5.29.37");
    assert.equal(objectIdOf(hex("2700")), "0.39.0");
    // The first byte has root and first part together: 40 parts for each root but the last.
    for (const [byte, text] of [
      ["27", "0.39"],
      ["28", "1.0"],
      ["4f", "1.39"],
      ["50", "2.0"],
      ["7f", "2.47"],
    ] as const)
      assert.equal(objectIdOf(hex(byte)), text);
    assert.equal(objectIdOf(hex("8837")), "2.999");
    assert.equal(objectIdOf(hex("2a817f")), "1.2.255");
    assert.equal(objectIdOf(hex("2a8100")), "1.2.128");
  });

  it("are refused where they are empty, cut off, or too large", () => {
    for (const wrong of ["", "2a86", "80", "2affffffffffffffff7f"])
      assert.throws(() => objectIdOf(hex(wrong)), refused, wrong);
    assert.equal(objectIdOf(hex("2a")), "1.2");
  });
});

it("integers are lower-case hex without leading zeros", () => {
  for (const [bytes, text] of [
    ["00", "00"],
    ["", "00"],
    ["0000", "00"],
    ["00ff", "ff"],
    ["0a00", "0a00"],
    ["7B", "7b"],
  ] as const)
    assert.equal(integerHex(hex(bytes)), text);
});

describe("times", () => {
  const timeOf = (text: string, tag: number = derTags.utcTime): number =>
    derTimeMs({ tag, bytes: new Uint8Array(), content: Buffer.from(text) });

  it("have two digits of the year before 2050 and four from then on", () => {
    assert.equal(timeOf("260102030405Z"), Date.UTC(2026, 0, 2, 3, 4, 5));
    assert.equal(timeOf("491231235959Z"), Date.UTC(2049, 11, 31, 23, 59, 59));
    assert.equal(timeOf("500101000000Z"), Date.UTC(1950, 0, 1));
    assert.equal(timeOf("20500101000000Z", derTags.generalizedTime), Date.UTC(2050, 0, 1));
  });

  it("are refused in any other form", () => {
    for (const text of ["", "2601020304Z", "260102030405", "260102030405+0100", "x260102030405Z"])
      assert.throws(() => timeOf(text), refused, text);
    assert.throws(() => timeOf("20260102030405Z"), refused);
    assert.throws(() => timeOf("260102030405Z", derTags.generalizedTime), refused);
    assert.throws(() => timeOf("260102030405Z", derTags.octetString), refused);
  });
});
