/**
 * Reads and signs metadata of releases in the form of TUF 1.0 (The Update Framework, sections 4.2 to 4.6). It states
 * what the four roles sign, how it is read from bytes that anybody may have written, and whose signatures are on it.
 * Keys are Ed25519. Only what Stemma writes is accepted: no delegations, whole numbers, and texts without control
 * characters, so that the canonical JSON of TUF and RFC 8785 are the same bytes. Pure.
 */
import canonicalize from "canonicalize";
import * as z from "zod";
import { sha256 } from "../../tensor/hash.js";
import { parseStrictJson, plainJson } from "../../tensor/strict-json.js";
import { isSignatureValid, type Signer } from "../keys.js";
import { metadataInvalid } from "./release-errors.js";

export const releaseRoles = ["root", "timestamp", "snapshot", "targets"] as const;
export type ReleaseRole = (typeof releaseRoles)[number];

/** Longest metadata of a role, in bytes. A set of all of them goes to each device. */
export const maxMetadataBytes = {
  root: 64 * 1024,
  timestamp: 16 * 1024,
  snapshot: 16 * 1024,
  targets: 512 * 1024,
};
const maxDepth = 12;
const maxKeys = 32;
const maxTargets = 4096;
export const maxMetadataVersion = 2 ** 31 - 1;

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${bytes * 2}}$`));
const version = z.number().int().min(1).max(maxMetadataVersion);
/** ISO 8601 in UTC to the second, as TUF prescribes. */
const expires = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  .refine((text) => !Number.isNaN(Date.parse(text)), "is not a time");
const common = { spec_version: z.string().regex(/^1\.\d+(\.\d+)?$/), version, expires };
const key = z.looseObject({
  keytype: z.literal("ed25519"),
  scheme: z.literal("ed25519"),
  keyval: z.looseObject({ public: hex(32) }),
});
const roleKeys = z.looseObject({
  keyids: z.array(hex(32)).min(1).max(maxKeys),
  threshold: z.number().int().min(1).max(maxKeys),
});
/** Name of a release: part of a path, and of commands. */
export const releaseName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/,
    "must be 1 to 128 letters, digits, dots, colons, - and _, beginning with a letter or digit",
  );
/** The statement of one role on the file below it: length and hashes are of its bytes as they are published. */
const meta = z.looseObject({
  version,
  length: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
  hashes: z.record(z.string().min(1).max(64), z.string().regex(/^[0-9a-f]{8,256}$/)).optional(),
});
export type FileMeta = z.infer<typeof meta>;

const signedSchemas = {
  root: z.looseObject({
    _type: z.literal("root"),
    ...common,
    consistent_snapshot: z.boolean(),
    keys: z.record(hex(32), key),
    roles: z.looseObject({ root: roleKeys, timestamp: roleKeys, snapshot: roleKeys, targets: roleKeys }),
  }),
  timestamp: z.looseObject({
    _type: z.literal("timestamp"),
    ...common,
    meta: z.strictObject({ "snapshot.json": meta }),
  }),
  snapshot: z.looseObject({
    _type: z.literal("snapshot"),
    ...common,
    meta: z.strictObject({ "targets.json": meta }),
  }),
  targets: z.looseObject({
    _type: z.literal("targets"),
    ...common,
    targets: z.record(
      releaseName,
      z.looseObject({
        length: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
        hashes: z.looseObject({ sha256: hex(32) }),
        custom: z.looseObject({ versionId: hex(32) }),
      }),
    ),
    delegations: z.undefined().optional(),
    "x-stemma-revoked": z
      .array(z.looseObject({ name: releaseName, versionId: hex(32), because: z.string().max(1000) }))
      .max(maxTargets)
      .optional(),
  }),
} as const;
export type SignedOf<Role extends ReleaseRole> = z.infer<(typeof signedSchemas)[Role]>;
export type Root = SignedOf<"root">;
export type Targets = SignedOf<"targets">;

export interface MetadataSignature {
  readonly keyid: string;
  /** "": a place for the key's signature, without one. */
  readonly sig: string;
}
export const metadataSignature = z.strictObject({ keyid: hex(32), sig: z.union([z.literal(""), hex(64)]) });
const envelopeSchema = z.strictObject({
  signatures: z.array(metadataSignature).max(2 * maxKeys),
  signed: z.looseObject({}),
});

/** Metadata of a role with its signatures, which are not verified yet. */
export interface Metadata<Role extends ReleaseRole = ReleaseRole> {
  readonly signatures: readonly MetadataSignature[];
  readonly signed: SignedOf<Role>;
}

/** Reads metadata of a role. @throws RELEASE_METADATA_INVALID */
export function parseMetadata<Role extends ReleaseRole>(role: Role, text: string): Metadata<Role> {
  const most = maxMetadataBytes[role];
  const bytes = Buffer.byteLength(text);
  if (bytes > most) throw metadataInvalid(`${role} has ${bytes} bytes, and at most ${most} are read`);
  const json = plainJson(
    parseStrictJson(text, { maxDepth, maxValues: 200_000, wholeNumbersOnly: true }, (why) => {
      throw metadataInvalid(`${role} is not JSON: ${why}`);
    }),
  );
  return checkMetadata(role, json);
}

/** Checks as `parseMetadata`, a value in memory. @throws RELEASE_METADATA_INVALID */
export function checkMetadata<Role extends ReleaseRole>(role: Role, json: unknown): Metadata<Role> {
  const envelope = envelopeSchema.safeParse(json);
  if (!envelope.success) throw metadataInvalid(`${role} ${describe(envelope.error)}`, envelope.error);
  const { signatures, signed } = envelope.data;
  // TUF 4.2.1: each signature of a key counts once, and a second one is refused, not passed over.
  if (new Set(signatures.map(({ keyid }) => keyid)).size !== signatures.length)
    throw metadataInvalid(`${role} has two signatures of one key`);
  if (!isPlain(signed)) throw metadataInvalid(`${role} has numbers or texts that have more than one form`);
  const checked = signedSchemas[role].safeParse(signed);
  if (!checked.success) throw metadataInvalid(`${role} ${describe(checked.error)}`, checked.error);
  if (role === "root") checkRoot(checked.data as Root);
  if (role === "targets" && Object.keys((checked.data as Targets).targets).length > maxTargets)
    throw metadataInvalid(`targets names more than ${maxTargets} releases; revoke old ones`);
  // The value as it came, with members that are not known here: the signatures are over all of it.
  return { signatures, signed: signed as SignedOf<Role> };
}

function describe(error: z.ZodError): string {
  const [issue] = error.issues;
  return `is malformed at ${issue?.path.join(".") || "its beginning"}: ${issue?.message ?? ""}`;
}

/** True if every value has one canonical form, which is the same in TUF's canonical JSON and in RFC 8785. */
function isPlain(value: unknown): boolean {
  if (typeof value === "number") return Number.isSafeInteger(value) && !Object.is(value, -0);
  if (typeof value === "string") return !/\p{Cc}|\p{Cs}/u.test(value);
  if (Array.isArray(value)) return value.every(isPlain);
  if (typeof value === "object" && value !== null)
    return Object.entries(value).every(([name, member]) => isPlain(name) && isPlain(member));
  return value === null || typeof value === "boolean";
}

/** A key's id is the hash of the key: one key cannot count twice under two ids. */
function checkRoot({ keys, roles }: Root): void {
  for (const [id, one] of Object.entries(keys))
    if (keyIdOf(one.keyval.public) !== id || Object.keys(one).length !== 3)
      throw metadataInvalid(`root names a key by another id than its own (${id.slice(0, 12)})`);
  for (const role of releaseRoles) {
    const { keyids, threshold } = roles[role];
    if (new Set(keyids).size !== keyids.length || keyids.some((id) => keys[id] === undefined))
      throw metadataInvalid(`root names keys of ${role} twice or not at all`);
    if (threshold > keyids.length)
      throw metadataInvalid(
        `root asks for ${threshold} signatures of ${role} and names ${keyids.length} keys`,
      );
  }
}

/** A public key as TUF writes it. */
export function tufKey(publicKey: string): Root["keys"][string] {
  return { keytype: "ed25519", keyval: { public: publicKey }, scheme: "ed25519" };
}

export function keyIdOf(publicKey: string): string {
  return sha256(canonicalBytes(tufKey(publicKey)));
}

/** The bytes that are signed. */
export function canonicalBytes(value: unknown): Uint8Array {
  return Buffer.from(canonicalize(value) ?? "", "utf8");
}

/** Formats the metadata as it is written to a file and sent. */
export function metadataText(metadata: Metadata): string {
  return `${JSON.stringify({ signatures: metadata.signatures, signed: metadata.signed })}\n`;
}

/** The form of something with signatures over the canonical bytes of what is signed. */
export interface Signable {
  readonly signatures: readonly MetadataSignature[];
  readonly signed: unknown;
}

/** The keys of a role whose valid signatures are on it. */
export function validSigners(root: Root, role: ReleaseRole, metadata: Signable): ReadonlySet<string> {
  const bytes = canonicalBytes(metadata.signed);
  const allowed = root.roles[role].keyids;
  return new Set(
    metadata.signatures
      .filter(({ keyid, sig }) => {
        const publicKey = allowed.includes(keyid) ? root.keys[keyid]?.keyval.public : undefined;
        return publicKey !== undefined && sig !== "" && isSignatureValid(publicKey, bytes, sig);
      })
      .map(({ keyid }) => keyid),
  );
}

/** @throws RELEASE_METADATA_INVALID where fewer than the threshold of the role's keys signed */
export function verifyRole(root: Root, role: ReleaseRole, metadata: Metadata): void {
  const { threshold } = root.roles[role];
  const signers = validSigners(root, role, metadata).size;
  if (signers < threshold)
    throw metadataInvalid(
      `${role} version ${metadata.signed.version} has ${signers} of the ${threshold} signatures that root version ${root.version} asks for`,
    );
}

/** Adds the signature of a key of the role; undefined where it is not one. */
export function addSignature<Content extends Signable>(
  root: Root,
  role: ReleaseRole,
  content: Content,
  signer: Signer,
): Content | undefined {
  const keyid = keyIdOf(signer.publicKey);
  if (!root.roles[role].keyids.includes(keyid)) return undefined;
  return withSignature(content, keyid, signer);
}

/** Replaces an earlier signature of the same key. */
export function withSignature<Content extends Signable>(
  content: Content,
  keyid: string,
  signer: Signer,
): Content {
  const sig = Buffer.from(signer.sign(canonicalBytes(content.signed))).toString("hex");
  const others = content.signatures.filter((one) => one.keyid !== keyid);
  return { ...content, signatures: [...others, { keyid, sig }] };
}
