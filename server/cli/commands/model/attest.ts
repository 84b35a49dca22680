/** `stemma model attest|attestation`: signed statements about a file or folder with a model, for tools of others. */
import { createHash } from "node:crypto";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { printable } from "../../../../shared/printable.js";
import { attest, verifyAttestation } from "../../../../shared/trust/attestations/bundle.js";
import {
  aloneName,
  attestedFiles,
  signatureStatement,
  type AttestedFile,
} from "../../../../shared/trust/attestations/statement.js";
import type { RecoveryReport } from "../../../interface/api/models/version-schemas.js";
import { differenceFrom, exportedFiles, type ExportedFiles } from "../../attested-files.js";
import { provenanceStatement } from "../../documents/provenance-statement.js";
import { pathOf, plain, type PlainContext } from "../../plain-command.js";
import { publicKeyOf, signerOf, signerOptions } from "../../release-signer.js";
import { refuseExisting } from "../../stream-file.js";
import { modelJsonText, tfjsNames } from "../../tfjs-files.js";
import { nameOf } from "../../version-text.js";

interface Recovered {
  readonly report: RecoveryReport;
  readonly files: readonly AttestedFile[];
}

/** @throws EXPORT_MISMATCH, KEY_INVALID, SIGNER_FAILED, FILE_EXISTS, FILE_MISSING, NOT_FOUND, RECORD_TOO_LARGE */
const sign = plain(null, {
  name: "attest",
  about: "sign an exported version, for verifiers of the OpenSSF Model Signing format",
  takes: {
    model: "name, name:version, name:tag or id",
    exported: "the file or tfjs folder that model recover wrote",
  },
  options: {
    file: { text: "<path> where the attestation goes", read: pathOf, required: true },
    provenance: "attest how it was made (SLSA provenance 1) in place of what it is",
    force: "overwrite a file that exists",
    ...signerOptions,
  },
  help: `
The file, or folder of --form tfjs, must be what stemma model recover writes of the version: it is
recovered again and compared. A P-256 key is made for this one signature and certified by the
release key, whose certificate verifiers pin:

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
    const found = await exportedFiles(pathOf(exported), file);
    const [{ sha256 } = { sha256: "" }] = found.files;
    if (provenance && found.isFolder)
      throw new StemmaError(
        "USAGE",
        "--provenance attests one file. Recover the model as safetensors, and name that.",
      );
    const signer = await signerOf(regularFiles(), choices);
    const { versionId, ...named } = await exportedVersion(model, found, context);
    const statement = provenance
      ? provenanceStatement(await context.call("model", { model: versionId }), { name: found.name, sha256 })
      : signatureStatement(found.name, found.files);
    const bundle = Buffer.from(`${attest(statement, signer)}\n`);
    verifyAttestation(file, bundle, signer.publicKey);
    await writeDurably(nodeFiles(), file, bundle);
    const { publicKey } = signer;
    const { predicateType } = statement;
    return {
      data: { versionId, file, ...hashesOf(found), predicateType, publicKey },
      names: [versionId],
      text: `wrote the attestation of ${nameOf(named)} to ${file}\nsigned for the key ${publicKey}`,
    };
  },
});

/** @throws SIGNATURE_INVALID, FILE_MISSING, KEY_INVALID */
const check = plain(null, {
  name: "attestation",
  about: "check an exported file or folder against its attestation and a release key; needs no server",
  takes: { exported: "the file or folder" },
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
    const found = await exportedFiles(pathOf(exported), signature);
    const attested = attestedFiles(statement);
    const difference =
      attested === undefined ? "its list of files contradicts itself" : differenceFrom(attested, found.files);
    if (difference !== undefined)
      throw new StemmaError(
        "SIGNATURE_INVALID",
        `${exported} is not what ${signature} attests: ${difference}. Do not run it; get both again from who ` +
          "released the model.",
      );
    const { predicateType, predicate, subject } = statement;
    const { name } = subject[0];
    return {
      data: { file: found.path, ...hashesOf(found), name, predicateType, predicate, publicKey: ownerKey },
      names: found.files.map(({ sha256 }) => sha256),
      text:
        `${exported} has the bytes that were signed as ${printable(name.slice(0, 200))}\n` +
        `for the key ${ownerKey}\nstatement ${printable(predicateType.slice(0, 200))}`,
    };
  },
});

/** The SHA-256 of a file, or of each file of a folder. */
function hashesOf({ isFolder, files }: ExportedFiles): object {
  return isFolder ? { files } : { sha256: files[0]?.sha256 };
}

/**
 * The version whose recovery has these bytes: a file with its story or without, or the folder of tfjs.
 * @throws EXPORT_MISMATCH
 */
async function exportedVersion(
  model: string,
  exported: ExportedFiles,
  context: PlainContext,
): Promise<RecoveryReport> {
  const ways: readonly Wanted[] = exported.isFolder ? [{ form: "tfjs" }] : [{}, { story: "omit" }];
  let version = model;
  for (const way of ways) {
    const { report, files } = await recovered(version, way, context);
    if (differenceFrom(files, exported.files) === undefined) return report;
    version = report.versionId;
  }
  const { name, version: number } = await context.call("model", { model: version });
  const form = exported.isFolder ? "--form tfjs --folder FOLDER" : "--file FILE";
  throw new StemmaError(
    "EXPORT_MISMATCH",
    `${exported.path} is not what this writes: stemma model recover ${name}:${number} ${form}. Run that, and name ` +
      "what it writes.",
  );
}

interface Wanted {
  readonly story?: "omit";
  readonly form?: "tfjs";
}

/** Recovers a version, verifies it, and keeps nothing but the hashes of its files. */
async function recovered(
  model: string,
  wanted: Wanted,
  { operations, fleet, signal }: PlainContext,
): Promise<Recovered> {
  const opened = await operations();
  const asked = { fleet, model, environment: "ignore", ...wanted } as const;
  const stream = await opened.recover(asked, { signal });
  const hash = createHash("sha256");
  for await (const chunk of stream.chunks) hash.update(chunk);
  const report = await stream.report;
  const sha256 = hash.digest("hex");
  if (wanted.form === undefined) return { report, files: [{ name: aloneName, sha256 }] };
  const json = await opened.modelJson({ fleet, model: report.versionId, weightsFile: tfjsNames.weights });
  const text = createHash("sha256").update(modelJsonText(json)).digest("hex");
  return {
    report,
    files: [
      { name: tfjsNames.json, sha256: text },
      { name: tfjsNames.weights, sha256 },
    ],
  };
}

export const commands = [sign, check];
