/** `stemma model attest|attestation`: signed statements about a file with a model, for tools of others. */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { printable } from "../../../../shared/printable.js";
import { hashFile } from "../../../../shared/programs/hash-file.js";
import { attest, verifyAttestation } from "../../../../shared/trust/attestations/bundle.js";
import { attestedHash, signatureStatement } from "../../../../shared/trust/attestations/statement.js";
import type { RecoveryReport } from "../../../interface/api/models/version-schemas.js";
import { provenanceStatement } from "../../documents/provenance-statement.js";
import { pathOf, plain, type PlainContext } from "../../plain-command.js";
import { publicKeyOf, signerOf, signerOptions } from "../../release-signer.js";
import { refuseExisting } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

interface Recovered {
  readonly report: RecoveryReport;
  readonly sha256: string;
}

/** @throws EXPORT_MISMATCH, KEY_INVALID, SIGNER_FAILED, FILE_EXISTS, FILE_MISSING, NOT_FOUND, RECORD_TOO_LARGE */
const sign = plain(null, {
  name: "attest",
  about: "sign a file with a version, for verifiers of the OpenSSF Model Signing format",
  takes: { model: "name, name:version, name:tag or id", exported: "the file that model recover wrote" },
  options: {
    file: { text: "<path> where the attestation goes", read: pathOf, required: true },
    provenance: "attest how it was made (SLSA provenance 1) in place of what it is",
    force: "overwrite a file that exists",
    ...signerOptions,
  },
  help: `
The file must be what stemma model recover writes of the version: it is recovered again and
compared. A P-256 key is made for this one signature and certified by the release key, whose
certificate verifiers pin:

  stemma model recover soh --file soh.safetensors
  stemma model attest soh soh.safetensors --file soh.sigstore.json \\
    --key owner.key --passphrase-file phrase
  stemma release key certificate --file owner.pem --key owner.key --passphrase-file phrase
  model_signing verify certificate soh.safetensors --signature soh.sigstore.json \\
    --certificate_chain owner.pem
  stemma model attestation soh.safetensors --signature soh.sigstore.json --owner owner.key

One key signs, whatever thresholds releases have; the attestation states no time, and cannot be
taken back: what may run on devices is what is released.
`,
  run: async ({ model, exported, file, provenance, force, ...choices }, context) => {
    await refuseExisting(file, force);
    const sha256 = await hashOfFile(exported);
    const signer = await signerOf(regularFiles(), choices);
    const { versionId, ...named } = await exportedVersion(model, { exported, sha256 }, context);
    const attested = { name: basename(pathOf(exported)), sha256 };
    const statement = provenance
      ? provenanceStatement(await context.call("model", { model: versionId }), attested)
      : signatureStatement(attested);
    const bundle = Buffer.from(`${attest(statement, signer)}\n`);
    verifyAttestation(file, bundle, signer.publicKey);
    await writeDurably(nodeFiles(), file, bundle);
    const { publicKey } = signer;
    const { predicateType } = statement;
    return {
      data: { versionId, file, sha256, predicateType, publicKey },
      names: [versionId],
      text: `wrote the attestation of ${nameOf(named)} to ${file}\nsigned for the key ${publicKey}`,
    };
  },
});

/** @throws SIGNATURE_INVALID, FILE_MISSING, KEY_INVALID */
const check = plain(null, {
  name: "attestation",
  about: "check a file against its attestation and a release key; needs no server",
  takes: { exported: "the file" },
  options: {
    signature: { text: "<path> its attestation", required: true },
    owner: {
      text: "<key> the release key that must stand for it: a key file, or its public key",
      required: true,
    },
  },
  run: async ({ exported, signature, owner }) => {
    const files = regularFiles();
    const ownerKey = await publicKeyOf(files, owner);
    const statement = verifyAttestation(signature, await files.read(pathOf(signature)), ownerKey);
    const sha256 = await hashOfFile(exported);
    if (attestedHash(statement) !== sha256)
      throw new StemmaError(
        "SIGNATURE_INVALID",
        `${exported} is not the file that ${signature} attests: its SHA-256 is ${sha256.slice(0, 16)}…. ` +
          "Do not run it; get both again from who released the model.",
      );
    const { predicateType, predicate, subject } = statement;
    const { name } = subject[0];
    return {
      data: { file: pathOf(exported), sha256, name, predicateType, predicate, publicKey: ownerKey },
      names: [sha256],
      text:
        `${exported} has the bytes that were signed as ${printable(name.slice(0, 200))}\n` +
        `for the key ${ownerKey}\nstatement ${printable(predicateType.slice(0, 200))}`,
    };
  },
});

/** @throws FILE_MISSING, FILE_NOT_REGULAR */
async function hashOfFile(path: string): Promise<string> {
  const found = await regularFiles().stat(pathOf(path));
  if (found?.kind === "file") return await hashFile(pathOf(path));
  throw new StemmaError(
    found === undefined ? "FILE_MISSING" : "FILE_NOT_REGULAR",
    `${path} is ${found === undefined ? "not there" : "no file"}. Name the file that stemma model recover wrote.`,
    { path },
  );
}

/** The version whose recovery has the bytes of the file, with its story or without. @throws EXPORT_MISMATCH */
async function exportedVersion(
  model: string,
  { exported, sha256 }: { readonly exported: string; readonly sha256: string },
  context: PlainContext,
): Promise<RecoveryReport> {
  const first = await recovered(model, undefined, context);
  if (first.sha256 === sha256) return first.report;
  const bare = await recovered(first.report.versionId, "omit", context);
  if (bare.sha256 === sha256) return bare.report;
  throw new StemmaError(
    "EXPORT_MISMATCH",
    `${exported} is not what stemma model recover writes of ${nameOf(first.report)}. Write it again: ` +
      `stemma model recover ${nameOf(first.report)} --file FILE.`,
  );
}

/** Recovers a version, verifies it, and keeps nothing but the hash of its file. */
async function recovered(
  model: string,
  story: "omit" | undefined,
  { operations, fleet, signal }: PlainContext,
): Promise<Recovered> {
  const asked = { fleet, model, environment: "ignore", ...defined({ story }) } as const;
  const stream = await (await operations()).recover(asked, { signal });
  const hash = createHash("sha256");
  for await (const chunk of stream.chunks) hash.update(chunk);
  return { report: await stream.report, sha256: hash.digest("hex") };
}

export const commands = [sign, check];
