/**
 * Reads what a device needs of a fact of the server's journal that was proven to it. Pure. The server's own
 * codec (`server/storage/repository/state/fact-codec.ts`) checks more; a device needs these two types only.
 */
import type { Hash } from "../tensor/tensor.js";
import { readShortHash } from "./short-hash.js";

export type ProvenFactContent =
  | {
      readonly type: "recorded";
      readonly versionId: Hash;
      readonly name: string;
      readonly version: number;
      /** The server does not have the tensors yet. */
      readonly isClaim: boolean;
    }
  /** Facts from `position` on may be lost. */
  | { readonly type: "restored"; readonly position: number };

/** Reads a proven fact; undefined for bytes that are neither of these facts. */
export function readProvenFact(entry: Uint8Array): ProvenFactContent | undefined {
  let fact: Readonly<Record<string, unknown>>;
  try {
    fact = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(entry)) as typeof fact;
  } catch {
    return undefined;
  }
  if (typeof fact !== "object" || fact === null) return undefined;
  const { type, name, version, position } = fact;
  if (type === "restored") return isCount(position) ? { type, position } : undefined;
  const versionId = readShortHash(fact["versionId"]);
  return type === "recorded" && versionId !== undefined && typeof name === "string" && isCount(version)
    ? { type, versionId, name, version, isClaim: fact["claim"] === true }
    : undefined;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
