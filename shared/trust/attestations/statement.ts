/**
 * In-toto statements (Statement v1) about a file with a model, and the form of the OpenSSF Model Signing specification
 * 1.0 for one file, or for a folder of files. Pure.
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
  resources: z
    .array(z.object({ name: z.string().min(1), algorithm: z.literal("sha256"), digest: hash }))
    .min(1)
    .max(1000),
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

/** The name of the one resource of a statement about a file alone. */
export const aloneName = ".";

/**
 * The statement that a verifier of the specification reads.
 * @param name of the file or folder
 * @param files those of a folder by their names in it, or one with the name "."
 */
export function signatureStatement(name: string, files: readonly AttestedFile[]): Statement {
  const sorted = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    _type: statementType,
    subject: [{ name, digest: { sha256: digestOfResources(sorted.map(({ sha256 }) => sha256)) } }],
    predicateType: signaturePredicate,
    predicate: {
      serialization: { method: "files", hash_type: "sha256", allow_symlinks: false },
      resources: sorted.map((file) => ({ name: file.name, algorithm: "sha256", digest: file.sha256 })),
    },
  };
}

/**
 * The files that a statement is about: those of a folder, or one with the name "."; undefined where it is of another
 * form, or its parts contradict each other.
 */
export function attestedFiles({
  predicateType,
  predicate,
  subject,
}: Statement): readonly AttestedFile[] | undefined {
  const { sha256 } = subject[0].digest;
  if (predicateType !== signaturePredicate) return [{ name: aloneName, sha256 }];
  const parsed = signatureSchema.safeParse(predicate);
  if (!parsed.success) return undefined;
  const files = parsed.data.resources.map(({ name, digest }) => ({ name, sha256: digest }));
  if (new Set(files.map(({ name }) => name)).size !== files.length) return undefined;
  return digestOfResources(files.map((file) => file.sha256)) === sha256 ? files : undefined;
}
