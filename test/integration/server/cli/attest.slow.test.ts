/** `model attest|attestation`, `release key certificate`, and the documents of a release: as a person uses them. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";

interface Place {
  /** The path of a file in the folder of the test. */
  readonly at: (name: string) => string;
  readonly run: (...args: string[]) => Promise<ProgramResult>;
  readonly done: (...args: string[]) => Promise<ProgramResult>;
  /** The key that signs, as options. */
  readonly key: readonly string[];
}

/** A home with a model, its exported file, and an owner's release key with its certificate. */
async function placeOf(t: TestContext): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-attest-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const at = (name: string): string => join(folder, name);
  const run = (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home: at("home") });
  const done = async (...args: string[]): Promise<ProgramResult> => {
    const result = await run(...args);
    assert.equal(result.status, 0, result.stderr);
    return result;
  };
  const { bytes, architecture } = await tinyImport("1");
  await writeFile(at("m.safetensors"), bytes);
  await writeFile(at("model.json"), architecture);
  await done("model", "import", at("m.safetensors"), "--name", "tiny", "--arch", at("model.json"));
  await done("model", "recover", "tiny", "--file", at("out.safetensors"));
  await writeFile(at("phrase"), "correct horse battery\n");
  await done("release", "key", "create", at("owner.key"), "--passphrase-file", at("phrase"));
  const key = ["--key", at("owner.key"), "--passphrase-file", at("phrase")];
  await done("release", "key", "certificate", "--file", at("owner.pem"), ...key);
  return { at, run, done, key };
}

test("a file is attested as its version, and the documents of a release are compared later", async (t) => {
  const { at, run, done, key } = await placeOf(t);
  const refused = async (code: string, ...args: string[]): Promise<void> => {
    const { status, stdout, stderr } = await run(...args);
    assert.notEqual(status, 0);
    assert.equal(stdout, "");
    assert.ok(stderr.includes(code), stderr);
  };
  await done("release", "key", "create", at("other.key"), "--passphrase-file", at("phrase"));
  assert.match(await readFile(at("owner.pem"), "utf8"), /^-----BEGIN CERTIFICATE-----\n/);

  const attest = ["model", "attest", "tiny", at("out.safetensors"), "--file", at("sig.json"), ...key];
  await done(...attest);
  await refused("FILE_EXISTS", ...attest);
  await done(...attest, "--force");
  const attested = ["model", "attestation", at("out.safetensors"), "--signature", at("sig.json"), "--owner"];
  assert.match((await done(...attested, at("owner.key"))).stdout, /were signed as out\.safetensors\n/);
  await refused("SIGNATURE_INVALID", ...attested, at("other.key"));
  const changed = await readFile(at("out.safetensors"));
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
  await writeFile(at("changed.safetensors"), changed);
  await refused(
    "SIGNATURE_INVALID",
    "model",
    "attestation",
    at("changed.safetensors"),
    ...attested.slice(3),
    at("owner.key"),
  );
  const again = ["--file", at("x.json"), ...key];
  await refused("EXPORT_MISMATCH", "model", "attest", "tiny", at("changed.safetensors"), ...again);
  await refused("NOT_FOUND", "model", "attest", "tiny", at("out.safetensors"), "--provenance", ...again);
  await refused("FILE_MISSING", "model", "attest", "tiny", at("none"), ...again);
  await refused("FILE_NOT_REGULAR", "model", "attest", "tiny", at("."), ...again);
  await done("model", "recover", "tiny", "--form", "tfjs", "--folder", at("web"));
  await refused("USAGE", "model", "attest", "tiny", at("web"), "--provenance", ...again);
  await done("model", "attest", "tiny", at("web"), "--file", at("web.json"), ...key);
  const folder = [
    "model",
    "attestation",
    at("web"),
    "--signature",
    at("web.json"),
    "--owner",
    at("owner.key"),
  ];
  assert.match((await done(...folder)).stdout, /were signed as web\n/);
  await refused(
    "SIGNATURE_INVALID",
    ...folder.slice(0, 3),
    "--signature",
    at("sig.json"),
    ...folder.slice(5),
  );
  const weights = await readFile(join(at("web"), "weights.bin"));
  await writeFile(join(at("web"), "weights.bin"), Buffer.concat([weights, Buffer.of(0)]));
  await refused("weights.bin has the SHA-256", ...folder);
  await refused("EXPORT_MISMATCH", "model", "attest", "tiny", at("web"), ...again);
  await rm(join(at("web"), "weights.bin"));
  await refused("weights.bin was signed, and is not there", ...folder);
  await writeFile(join(at("web"), "weights.bin"), weights);
  await writeFile(join(at("web"), "more.bin"), weights);
  await refused("more.bin was not signed", ...folder);

  await done("release", "init", at("first"), "--key", at("owner.key"));
  await done("release", "sign", at("first"), ...key);
  await done("release", "publish", at("first"));
  await done("release", "create", "tiny", "--file", at("one"));
  await done("release", "sign", at("one"), ...key);
  await done("release", "publish", at("one"));
  assert.match((await done("model", "card", "tiny")).stderr, /released as tiny:1 with this card and bill/);
  await done("model", "tag", "tiny", "best");
  assert.match(
    (await done("model", "card", "tiny")).stderr,
    /with other documents; changed: Model details\n/,
  );
  await done("release", "create", "tiny", "--no-documents", "--name", "bare", "--file", at("two"));
  assert.doesNotMatch(await readFile(at("two"), "utf8"), /documents/);
});

/** A Python with the package model-signing of OpenSSF. */
const python = process.env["STEMMA_TEST_PYTHON"] ?? "python3";

test("the reference implementation of Model Signing accepts an attestation, and no other file", async (t) => {
  const call = promisify(execFile);
  const modelSigning = (...args: string[]) => call(python, ["-m", "model_signing", ...args]);
  if ((await modelSigning("--version").catch(() => undefined)) === undefined) {
    t.skip(`${python} does not have the package model-signing (STEMMA_TEST_PYTHON names another Python)`);
    return;
  }
  const { at, done, key } = await placeOf(t);
  const file = at("out.safetensors");
  await done("model", "attest", "tiny", file, "--file", at("sig.json"), ...key);
  const verify = (signature: string) =>
    modelSigning(
      ...["verify", "certificate", file, "--signature", at(signature)],
      ...["--certificate_chain", at("owner.pem")],
    );
  await verify("sig.json");
  await writeFile(file, "another model");
  await assert.rejects(verify("sig.json"), /mismatch|Verification failed/i);
  await done("model", "recover", "tiny", "--form", "tfjs", "--folder", at("web"));
  await done("model", "attest", "tiny", at("web"), "--file", at("web.json"), ...key);
  const verifyFolder = () =>
    modelSigning(
      ...["verify", "certificate", at("web"), "--signature", at("web.json")],
      ...["--certificate_chain", at("owner.pem")],
    );
  await verifyFolder();
  await writeFile(join(at("web"), "more.bin"), "more");
  await assert.rejects(verifyFolder(), /mismatch|Verification failed|extra/i);
});
