/** Signatures, tokens and enrolments: golden vectors, and everything that must not be valid. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { SignedHead } from "../../../../shared/journal/journal.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  loadEnrolment,
  parseEnrolment,
  sealEnrolment,
  type Enrolment,
} from "../../../../shared/trust/enrolment.js";
import { generateKey, isSignatureValid, keyOfSeed, loadKey, saveKey } from "../../../../shared/trust/keys.js";
import {
  isSessionSigned,
  receiptMessage,
  signAnnounce,
  signOffer,
  signReceipt,
  signSession,
  verifyAnnounce,
  verifyHead,
  verifyOffer,
  verifyReceipt,
  type OfferSubject,
  type SessionSubject,
} from "../../../../shared/trust/signatures.js";
import { generateToken, hashToken, isTokenOf } from "../../../../shared/trust/token.js";
import type { Receipt } from "../../../../shared/wire/messages.js";
import { signHead } from "../../../helpers/sign-head.js";

const random = { bytes: (count: number) => new Uint8Array(randomBytes(count)) };
const files = nodeFiles();
const folder = mkdtempSync(join(tmpdir(), "stemma-trust-"));
after(() => {
  rmSync(folder, { recursive: true, force: true });
});
const hash = (byte: string): Hash => byte.repeat(32) as Hash;
function throwsCode(code: ErrorCode, action: () => unknown, what?: string): void {
  assert.throws(action, (error) => isStemmaError(error, code), what);
}

interface Vectors {
  seed: string;
  publicKey: string;
  announce: { versionId: Hash; signature: string };
  offer: { subject: OfferSubject; signature: string };
  head: SignedHead;
  receipt: { message: string; signed: Receipt };
  token: { token: string; hash: string };
}
const vectors = JSON.parse(
  readFileSync(new URL("../../../vectors/trust/signatures.json", import.meta.url), "utf8"),
) as Vectors;

test("RFC 8032, test 2: seed, public key and signature", () => {
  const key = keyOfSeed("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  assert.equal(key.publicKey, "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  assert.equal(
    Buffer.from(key.sign(Uint8Array.of(0x72))).toString("hex"),
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
  );
});

test("golden vectors of everything that is signed", async () => {
  const key = keyOfSeed(vectors.seed);
  const { type, publicKey, signature, ...receipt } = vectors.receipt.signed;
  assert.equal(key.publicKey, vectors.publicKey);
  assert.equal(await signAnnounce(key, vectors.announce.versionId), vectors.announce.signature);
  assert.equal(signOffer(key, vectors.offer.subject), vectors.offer.signature);
  assert.deepEqual(signHead(key, vectors.head), vectors.head);
  assert.equal(Buffer.from(receiptMessage(receipt)).toString("hex"), vectors.receipt.message);
  assert.deepEqual(signReceipt(key, receipt), { type, ...receipt, publicKey, signature });
  assert.equal(hashToken(vectors.token.token), vectors.token.hash);
});

test("golden vectors of the receipts and offers of a generation (signed form 2)", () => {
  const { seed, offer, receipt } = JSON.parse(
    readFileSync(new URL("../../../vectors/trust/signatures-2.json", import.meta.url), "utf8"),
  ) as Pick<Vectors, "seed" | "offer" | "receipt">;
  const key = keyOfSeed(seed);
  const { type, publicKey, signature, ...unsigned } = receipt.signed;
  assert.equal(signOffer(key, offer.subject), offer.signature);
  assert.equal(Buffer.from(receiptMessage(unsigned)).toString("hex"), receipt.message);
  assert.deepEqual(signReceipt(key, unsigned), { type, ...unsigned, publicKey, signature });
});

test("golden vectors of sessions, and a session binds every one of its fields and the device's key", async () => {
  const { seed, publicKey, sessions } = JSON.parse(
    readFileSync(new URL("../../../vectors/trust/sessions-1.json", import.meta.url), "utf8"),
  ) as { seed: string; publicKey: string; sessions: { subject: SessionSubject; signature: string }[] };
  const key = keyOfSeed(seed);
  for (const { subject, signature } of sessions) {
    assert.equal(await signSession(key, subject), signature);
    assert.ok(isSessionSigned(publicKey, subject, signature));
    const changes: Partial<SessionSubject>[] = [
      { fleet: `${subject.fleet}x` },
      { device: "v2" },
      { fleet: `${subject.fleet}${subject.device}`, device: "" },
      { generation: subject.generation + 1 },
      { session: subject.session - 1 },
      { previousSession: subject.previousSession + 1 },
      { online: !subject.online },
    ];
    for (const change of changes)
      assert.ok(!isSessionSigned(publicKey, { ...subject, ...change }, signature), JSON.stringify(change));
    assert.ok(!isSessionSigned(generateKey(random).publicKey, subject, signature));
    assert.ok(!isSessionSigned(publicKey, subject, undefined));
  }
});

test("a receipt binds every one of its fields, the server's key, the device and the session", () => {
  const server = generateKey(random);
  const head = { ...signHead(server, { length: 5, chain: hash("01"), root: hash("02") }) };
  const receipt = signReceipt(server, {
    kind: "stored",
    versionId: hash("aa"),
    fleet: "f",
    device: "v1",
    generation: 2,
    session: 7,
    position: 4,
    head,
    backedUpTo: 3,
    name: "m",
    version: 2,
  });
  const reader = { serverPublicKey: server.publicKey, fleet: "f", device: "v1", generation: 2, session: 7 };
  verifyReceipt(reader, receipt);
  const changes: Partial<Receipt>[] = [
    { kind: "released" },
    { versionId: hash("ab") },
    { fleet: "g" },
    { device: "v2" },
    { session: 8 },
    { generation: 1 },
    { generation: undefined },
    { position: 5 },
    { backedUpTo: 4 },
    { name: "n" },
    { version: 3 },
    { head: undefined },
    { head: { ...head, length: 6 } },
    { head: { ...head, root: hash("03") } },
    { publicKey: generateKey(random).publicKey },
    { signature: "00".repeat(64) },
    { signature: "zz" },
  ];
  for (const change of changes)
    throwsCode(
      "RECEIPT_INVALID",
      () => {
        verifyReceipt(reader, { ...receipt, ...change });
      },
      JSON.stringify(change),
    );
  throwsCode("RECEIPT_INVALID", () => {
    verifyReceipt({ ...reader, device: "v2" }, { ...receipt, device: "v2" });
  });
  throwsCode("RECEIPT_INVALID", () => {
    verifyReceipt({ ...reader, session: 9 }, receipt);
  });
  verifyReceipt({ serverPublicKey: server.publicKey, fleet: "f", device: "v1", generation: 2 }, receipt);
  // Sessions repeat: the receipt of an earlier generation is another one's, even where its signature is valid.
  throwsCode("RECEIPT_INVALID", () => {
    verifyReceipt({ ...reader, generation: 3 }, receipt);
  });
  throwsCode("RECEIPT_INVALID", () => {
    verifyReceipt(reader, signReceipt(server, { ...receipt, generation: undefined }));
  });
  // Moving bytes between neighbouring fields must change the signed bytes.
  const shifted = signReceipt(server, { ...receipt, fleet: "fv", device: "1" });
  throwsCode("RECEIPT_INVALID", () => {
    verifyReceipt(reader, { ...receipt, signature: shifted.signature });
  });
});

test("a signature of one kind is not valid for another", async () => {
  const key = generateKey(random);
  const id = hash("aa");
  const subject = { fleet: "f", device: "v1", generation: 2, line: "cam", versionId: id };
  const announcement = await signAnnounce(key, id);
  verifyAnnounce(key.publicKey, id, announcement);
  verifyOffer(key.publicKey, subject, signOffer(key, subject));
  throwsCode("SIGNATURE_INVALID", () => {
    verifyOffer(key.publicKey, subject, announcement);
  });
  throwsCode("SIGNATURE_INVALID", () => {
    verifyAnnounce(key.publicKey, id, signOffer(key, subject));
  });
  throwsCode("SIGNATURE_INVALID", () => {
    verifyOffer(key.publicKey, { ...subject, line: "soh" }, signOffer(key, subject));
  });
  for (const generation of [1, 3, undefined])
    throwsCode("SIGNATURE_INVALID", () => {
      verifyOffer(key.publicKey, { ...subject, generation }, signOffer(key, subject));
    });
  throwsCode("SIGNATURE_INVALID", () => signOffer(key, { ...subject, line: "a\0b" }));
  // A staged offer has one form, and without a generation it is one of generation 0.
  const staged = { ...subject, generation: undefined, staged: true };
  assert.equal(signOffer(key, staged), signOffer(key, { ...staged, generation: 0 }));
  for (const other of [
    { ...staged, staged: false },
    { ...staged, generation: 1 },
  ])
    throwsCode("SIGNATURE_INVALID", () => {
      verifyOffer(key.publicKey, other, signOffer(key, staged));
    });
  const head = signHead(key, { length: 1, chain: hash("01"), root: hash("02") });
  verifyHead(key.publicKey, head);
  throwsCode("HEAD_SIGNATURE_INVALID", () => {
    verifyHead(key.publicKey, { ...head, length: 2 });
  });
  throwsCode("HEAD_SIGNATURE_INVALID", () => {
    verifyHead(generateKey(random).publicKey, head);
  });
});

test("malformed keys and signatures are not valid, and do not throw", () => {
  const key = generateKey(random);
  const message = Buffer.from("m");
  const signature = key.sign(message);
  assert.equal(isSignatureValid(key.publicKey, message, signature), true);
  for (const publicKey of ["", "zz", "00".repeat(31), "ff".repeat(32), key.publicKey.toUpperCase()])
    assert.equal(isSignatureValid(publicKey, message, signature), false, publicKey);
  for (const wrong of ["", "00", new Uint8Array(0), new Uint8Array(64), signature.subarray(1)])
    assert.equal(isSignatureValid(key.publicKey, message, wrong), false);
});

test("keys are kept in a file that only this user can read; a damaged one is refused", async () => {
  const path = join(folder, "key.json");
  const key = generateKey(random);
  await saveKey(files, path, key);
  assert.equal((await loadKey(files, path)).publicKey, key.publicKey);
  for (const text of [
    "",
    "{",
    "{}",
    readFileSync(path, "utf8").replace(/"seed":"../, '"seed":"zz'),
    readFileSync(path, "utf8").replace(/"publicKey":"(..)/, (_, digits) =>
      digits === "00" ? '"publicKey":"01' : '"publicKey":"00',
    ),
  ]) {
    writeFileSync(path, text);
    await assert.rejects(loadKey(files, path), (error) => isStemmaError(error, "KEY_INVALID"), text);
  }
  await assert.rejects(loadKey(files, join(folder, "none.json")), (error) =>
    isStemmaError(error, "FILE_MISSING"),
  );
});

test("tokens are long, stored only as a hash, and accepted only if complete", () => {
  const token = generateToken(random);
  assert.match(token, /^stemma_[A-Za-z0-9_-]{43}$/);
  assert.notEqual(token, generateToken(random));
  assert.equal(isTokenOf(token, hashToken(token)), true);
  assert.equal(isTokenOf(Buffer.from(token), hashToken(token)), true);
  for (const wrong of ["", token.slice(0, -1), `${token}x`, hashToken(token)])
    assert.equal(isTokenOf(wrong, hashToken(token)), false);
  for (const broken of ["", "zz", "00"]) assert.equal(isTokenOf(token, broken), false);
});

test("an enrolment file is read back; every invalid field is named", async () => {
  const device = generateKey(random);
  const enrolment: Enrolment = {
    kind: "stemma-enrolment",
    format: 1,
    fleet: "f1",
    device: "v1",
    generation: 3,
    lines: ["pack-soh", "front-cam"],
    mqtt: ["mqtt://127.0.0.1:1883", "mqtts://fleet.example.org"],
    http: "http://127.0.0.1:8080",
    root: "stemma",
    token: generateToken(random),
    deviceSeed: device.seed,
    devicePublicKey: device.publicKey,
    serverPublicKey: generateKey(random).publicKey,
    profile: "x86-cuda",
  };
  const path = join(folder, "enrolment.json");
  writeFileSync(path, JSON.stringify(enrolment));
  assert.deepEqual(await loadEnrolment(files, path), enrolment);
  const wrong: Record<string, unknown>[] = [
    { fleet: "a/b" },
    { device: "" },
    { generation: 0 },
    { generation: 2 ** 32 },
    { lines: [] },
    { mqtt: [] },
    { mqtt: ["http://x"] },
    { http: "ftp://x" },
    { root: "a/b/c" },
    { token: "short" },
    { deviceSeed: "00" },
    { serverPublicKey: "" },
    { profile: "" },
    { format: 2 },
    { more: 1 },
  ];
  for (const change of wrong) {
    assert.throws(
      () => parseEnrolment({ ...enrolment, ...change }),
      (error) =>
        isStemmaError(error, "ENROLMENT_INVALID") && error.message.includes(Object.keys(change)[0] as string),
      JSON.stringify(change),
    );
  }
  throwsCode("ENROLMENT_INVALID", () =>
    parseEnrolment({ ...enrolment, devicePublicKey: generateKey(random).publicKey }),
  );
  throwsCode("ENROLMENT_INVALID", () => parseEnrolment(undefined));

  const sealed = JSON.stringify(sealEnrolment(enrolment));
  const { checksum, ...members } = parseEnrolment(JSON.parse(sealed));
  assert.deepEqual(members, enrolment);
  assert.match(checksum ?? "", /^[0-9a-f]{64}$/);
  assert.equal(sealEnrolment(parseEnrolment(JSON.parse(sealed))).checksum, checksum);
  const flipped = Buffer.from(sealed);
  for (let bit = 0; bit < flipped.length * 8; bit += 1) {
    const index = bit >> 3;
    const mask = 1 << (bit & 7);
    flipped[index] = (flipped[index] ?? 0) ^ mask;
    let read: unknown;
    try {
      read = parseEnrolment(JSON.parse(flipped.toString("utf8")));
    } catch {
      read = undefined;
    }
    assert.equal(read, undefined, `bit ${bit} of an enrolment file was flipped and the file was accepted`);
    flipped[index] ^= mask;
  }
});
