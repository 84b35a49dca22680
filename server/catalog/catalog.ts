/**
 * The catalog port: an index over what the journal says, for questions that a lookup by id or name
 * does not answer. Disposable: it is rebuilt from the journal whenever it is missing or doubted, and
 * nothing exists in it alone. Knows no store and no journal.
 */
import { z } from "zod";
import { StemmaError } from "../../shared/errors.js";
import type { Approach } from "../../shared/model/model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { VersionQuery, VersionSummary } from "../repository/fleet-repository.js";

export type MetadataValue = string | number | boolean;

/** One version as the index keeps it. */
export interface CatalogEntry {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly position: number;
  readonly device: string;
  readonly line: string;
  readonly kind: "architecture" | "opaque";
  readonly approach: Approach;
  readonly contentId: Hash;
  readonly architecture: Hash;
  readonly state: VersionSummary["state"];
  readonly recordedAtMs: number;
  readonly tags: readonly string[];
  readonly bases: readonly Hash[];
  readonly metadata: Readonly<Record<string, MetadataValue>>;
}

export interface Catalog {
  /** Models up to which this implementation is meant to serve. */
  readonly comfortableModels: number;
  /** Inserts, or replaces by version id. */
  put(entries: readonly CatalogEntry[]): Promise<void>;
  /**
   * Version ids in the order asked for, by journal position. @throws HTTP_REQUEST_INVALID for what
   * `checkQuery` refuses
   */
  find(query: VersionQuery): Promise<readonly Hash[]>;
  count(): Promise<number>;
  clear(): Promise<void>;
}

const hash = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .transform((text) => text as Hash);
const text = z.string().max(256);
const time = z.number().min(-8.64e15).max(8.64e15);
const condition = z.strictObject({
  key: text,
  is: z.enum(["=", "<", "<=", ">", ">="]),
  value: z.union([text, z.number(), z.boolean()]),
});

/**
 * Exactly the fields of a query, of exactly their types: no object from outside can become an operator of an
 * index.
 */
const querySchema = z
  .strictObject({
    namePrefix: text,
    name: text,
    device: text,
    line: text,
    approach: z.enum(["snapshot", "update", "provenance"]),
    kind: z.enum(["architecture", "opaque"]),
    state: z.enum(["recorded", "stored", "released", "retired"]),
    contentId: hash,
    architecture: hash,
    base: hash,
    tag: text,
    recordedFromMs: time,
    recordedUntilMs: time,
    metadata: z.array(condition).max(16),
    includeRetired: z.boolean(),
    order: z.enum(["newest", "oldest"]),
    offset: z.number().int().min(0).max(1e9),
    limit: z.number().int().min(1).max(10_000),
  })
  .partial();

/** @throws HTTP_REQUEST_INVALID naming the field */
export function checkQuery(query: unknown): VersionQuery {
  const checked = querySchema.safeParse(query);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const where = issue?.path.join(".") || "query";
  throw new StemmaError(
    "HTTP_REQUEST_INVALID",
    `The search cannot be read at ${where}: ${issue?.message ?? "unknown field"}. Correct it and ask again.`,
    { where },
  );
}

export const defaultLimit = 100;
