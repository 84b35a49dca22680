/** What a certificate's extensions allow: where one is absent, nothing is allowed by it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  basicConstraintsOf,
  extensionIds,
  mayBeUsedTo,
} from "../../../../../shared/trust/certificates/certificate-fields.js";

/** A certificate's extensions with one value, DER in hexadecimal. */
const withExtension = (id: string, value: string) => ({
  extensions: new Map([[id, { critical: true, value: Buffer.from(value, "hex") }]]),
});
const none = { extensions: new Map() };

describe("basic constraints", () => {
  const of = (value: string) => basicConstraintsOf(withExtension(extensionIds.basicConstraints, value));

  it("make an authority where they say so, and nothing else does", () => {
    assert.deepEqual(basicConstraintsOf(none), { isAuthority: false, pathLength: undefined });
    assert.deepEqual(of("3000"), { isAuthority: false, pathLength: undefined });
    assert.deepEqual(of("3003010100"), { isAuthority: false, pathLength: undefined });
    assert.deepEqual(of("30030101ff"), { isAuthority: true, pathLength: undefined });
  });

  it("have a path of 0 to 127 authorities; a negative or longer number is refused", () => {
    for (const [length, pathLength] of [
      ["00", 0],
      ["03", 3],
      ["7f", 127],
    ] as const)
      assert.deepEqual(of(`30060101ff0201${length}`), { isAuthority: true, pathLength });
    for (const wrong of ["30060101ff020180", "30060101ff0201ff", "30070101ff02020100", "30050101ff0200"])
      assert.throws(() => of(wrong), { code: "CERTIFICATE_REFUSED" }, wrong);
  });
});

it("a key may be used for what its usage names; without one that is not said", () => {
  const of = (value: string) =>
    (["digitalSignature", "keyCertSign", "crlSign"] as const).map((use) =>
      mayBeUsedTo(withExtension(extensionIds.keyUsage, value), use),
    );
  assert.deepEqual(of("03020780"), [true, false, false]);
  assert.deepEqual(of("03020106"), [false, true, true]);
  assert.deepEqual(of("03020186"), [true, true, true]);
  assert.deepEqual(of("03020520"), [false, false, false]);
  assert.deepEqual(of("030100"), [false, false, false]);
  assert.equal(mayBeUsedTo(none, "digitalSignature"), undefined);
});
