/**
 * In-toto statements (Statement v1) about a file with a model, and the form of the OpenSSF Model Signing specification
 * 1.0 for one file. Pure.
 */
import { createHash } from "node:crypto";
import * as z from "zod";

export const statementType = "https://in-toto.io/Statement/v1";
const signaturePredicate = "https://model_signing/signature/v1.0";
export const provenancePredicate = "https://slsa.dev/provenance/v1";

const hash = z.string().regex(/^[0-9a-f]{64}$/);
export const statementSchema = z.object({
  _type: z.literal(statementType),
  subject: z.tuple([z.object({ name: z.string(), digest: z.object({ sha256: hash }) })]),
  predicateType: z.string(),
  predicate: z.unknown(),
});
export type Statement = z.infer<typeof statementSchema>;

const signatureSchema = z.object({
  serialization: z.object({ method: z.literal("files"), hash_type: z.literal("sha256") }),
  resources: z.tuple([z.object({ name: z.literal("."), algorithm: z.literal("sha256"), digest: hash })]),
});

/** A file by its name and the SHA-256 of its bytes, lower-case hex. */
export interface AttestedFile {
  readonly name: string;
  readonly sha256: string;
}

/** Bytes of the digests of all resources, hashed: what the specification calls the digest of a model. */
function digestOfResources(digests: readonly string[]): string {
  return createHash("sha256")
    .update(Buffer.from(digests.join(""), "hex"))
    .digest("hex");
}

/** The statement that a verifier of the specification reads: of a file alone, its one resource has the name ".". */
export function signatureStatement({ name, sha256 }: AttestedFile): Statement {
  return {
    _type: statementType,
    subject: [{ name, digest: { sha256: digestOfResources([sha256]) } }],
    predicateType: signaturePredicate,
    predicate: {
      serialization: { method: "files", hash_type: "sha256", allow_symlinks: false },
      resources: [{ name: ".", algorithm: "sha256", digest: sha256 }],
    },
  };
}

/**
 * The SHA-256 of the file that a statement is about; undefined where it is of another form, or its parts contradict
 * each other.
 */
export function attestedHash({ predicateType, predicate, subject }: Statement): string | undefined {
  const { sha256 } = subject[0].digest;
  if (predicateType !== signaturePredicate) return sha256;
  const parsed = signatureSchema.safeParse(predicate);
  if (!parsed.success) return undefined;
  const { digest } = parsed.data.resources[0];
  return digestOfResources([digest]) === sha256 ? digest : undefined;
}
