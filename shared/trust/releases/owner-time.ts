/**
 * The statement of a fleet's owner that it is a certain time. It replaces what a device learned of servers whose clocks
 * were wrong, also by an earlier time, and lowers no version of any metadata. Of two statements the one with the higher
 * number counts. The keys are those of the role `targets`; the file goes to the signers like a change. Pure.
 */
import * as z from "zod";
import { parseStrictJson, plainJson } from "../../tensor/strict-json.js";
import { maxOwnerTimeBytes } from "../../wire/limits.js";
import type { Signer } from "../keys.js";
import {
  addSignature,
  metadataSignature,
  metadataText,
  parseMetadata,
  validSigners,
  type Metadata,
  type MetadataSignature,
  type Root,
} from "./metadata.js";
import { keySignsNothing, ownerTimeInvalid } from "./release-errors.js";

const signedSchema = z.strictObject({
  /** The type is no role of TUF: a signature of this is never one of metadata. */
  _type: z.literal("x-stemma-time"),
  fleet: z.string().min(1).max(64),
  number: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  /** ISO 8601 in UTC to the second, as the metadata has its times. */
  time: z
    .string()
    .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    .refine((text) => Date.parse(text) >= 0, "is not a time"),
});
const statementSchema = z.strictObject({
  signatures: z.array(metadataSignature).max(64),
  signed: signedSchema,
});
export interface OwnerTimeStatement {
  readonly signatures: readonly MetadataSignature[];
  readonly signed: z.infer<typeof signedSchema>;
}

const fileSchema = z.strictObject({
  kind: z.literal("stemma-owner-time"),
  format: z.literal(1),
  /** The newest root of releases: whose signatures are needed. */
  root: z.string(),
  statement: z.unknown(),
});
/** The file that is carried to the signers. */
export interface OwnerTimeFile {
  readonly root: Metadata<"root">;
  readonly statement: OwnerTimeStatement;
}

/** @throws RELEASE_METADATA_INVALID where the time cannot be written */
export function unsignedOwnerTime(given: {
  readonly fleet: string;
  readonly number: number;
  readonly timeMs: number;
}): OwnerTimeStatement {
  const { fleet, number, timeMs } = given;
  const time = `${new Date(timeMs).toISOString().slice(0, 19)}Z`;
  return checkStatement({ signatures: [], signed: { _type: "x-stemma-time", fleet, number, time } });
}

export function ownerTimeText({ signatures, signed }: OwnerTimeStatement): string {
  return JSON.stringify({ signatures, signed });
}

/** @throws RELEASE_METADATA_INVALID */
export function parseOwnerTime(text: string): OwnerTimeStatement {
  if (Buffer.byteLength(text) > maxOwnerTimeBytes)
    throw ownerTimeInvalid(`it is longer than ${maxOwnerTimeBytes} bytes`);
  const json = plainJson(
    parseStrictJson(text, { maxDepth: 5, maxValues: 1000, wholeNumbersOnly: true }, (why) => {
      throw ownerTimeInvalid(`it is not JSON: ${why}`);
    }),
  );
  return checkStatement(json);
}

function checkStatement(json: unknown): OwnerTimeStatement {
  const parsed = statementSchema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw ownerTimeInvalid(`it is malformed at ${issue?.path.join(".") || "its beginning"}`, parsed.error);
  }
  const { signatures } = parsed.data;
  if (new Set(signatures.map(({ keyid }) => keyid)).size !== signatures.length)
    throw ownerTimeInvalid("it has two signatures of one key");
  return parsed.data;
}

/** Counts how many of the owner's keys signed, and how many have to. */
export function ownerTimeSignatures(
  root: Root,
  statement: OwnerTimeStatement,
): { readonly signatures: number; readonly threshold: number } {
  const { threshold } = root.roles.targets;
  return { signatures: validSigners(root, "targets", statement).size, threshold };
}

/** The time that the owner of this fleet states, by the keys of this root. @throws RELEASE_METADATA_INVALID */
export function statedTime(
  { root, fleet }: { readonly root: Root; readonly fleet: string },
  statement: OwnerTimeStatement,
): { readonly number: number; readonly timeMs: number } {
  const { signed } = statement;
  if (signed.fleet !== fleet)
    throw ownerTimeInvalid(`it is of the fleet ${signed.fleet}, and this is ${fleet}`);
  const { signatures, threshold } = ownerTimeSignatures(root, statement);
  if (signatures < threshold)
    throw ownerTimeInvalid(
      `it has ${signatures} of the ${threshold} signatures of targets that root version ${root.version} asks for`,
    );
  return { number: signed.number, timeMs: Date.parse(signed.time) };
}

/** @throws KEY_INVALID where the key is not one of those that sign releases */
export function signOwnerTime(file: OwnerTimeFile, signer: Signer): OwnerTimeFile {
  const statement = addSignature(file.root.signed, "targets", file.statement, signer);
  if (statement !== undefined) return { ...file, statement };
  throw keySignsNothing(signer.publicKey, "the time");
}

export function describeOwnerTime({ signed }: OwnerTimeStatement): readonly string[] {
  return [
    `states that it is ${signed.time} for the fleet ${signed.fleet} (statement ${signed.number})`,
    "devices that learned another time, also a later one, go on from this one",
  ];
}

export function ownerTimeFileText({ root, statement }: OwnerTimeFile): string {
  const file = { kind: "stemma-owner-time", format: 1, root: metadataText(root), statement };
  return `${JSON.stringify(file, undefined, 1)}\n`;
}

/** Parses the file; undefined where the text is the file of something else. @throws RELEASE_METADATA_INVALID */
export function parseOwnerTimeFile(text: string): OwnerTimeFile | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if ((json as { readonly kind?: unknown } | null)?.kind !== "stemma-owner-time") return undefined;
  const parsed = fileSchema.safeParse(json);
  if (!parsed.success) throw ownerTimeInvalid("its file is malformed", parsed.error);
  return { root: parseMetadata("root", parsed.data.root), statement: checkStatement(parsed.data.statement) };
}
