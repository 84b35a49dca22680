/**
 * The port to a tier: a place that is cheap to keep and dear to read, for the low-order bytes of tensors. It keeps
 * immutable files by name. folder-tier-files.ts keeps them in a folder.
 */
import { StemmaError } from "../../errors.js";

export interface TierFile {
  readonly name: string;
  readonly bytes: number;
}

/**
 * Every method throws TIER_UNREACHABLE where the tier cannot be used now, which never means that a file is not
 * there.
 */
export interface TierFiles {
  /** All files that were written completely. */
  list(): Promise<readonly TierFile[]>;
  /** Returns a file's size; undefined where there is no such file. */
  sizeOf(name: string): Promise<number | undefined>;
  /** @throws FILE_MISSING; PACK_CORRUPT where the file ends before the range does */
  read(name: string, at: number, length: number): Promise<Uint8Array>;
  /** Durable once this resolves. Where it throws, the name is not there. @throws DISK_FULL, FILE_FAILED */
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** A missing file is not an error. */
  remove(name: string): Promise<void>;
  /** Removes what interrupted writes left. Call when no write is in progress. */
  removeHalfFiles(): Promise<void>;
  /** Returns the free bytes; undefined where nobody knows. */
  freeBytes(): Promise<number | undefined>;
}

export interface Tier {
  readonly name: string;
  readonly files: TierFiles;
}

const lowFilePattern = /^[0-9a-f]{64}\.[0-9a-f]{16}$/;
export function isLowFileName(name: string): boolean {
  return lowFilePattern.test(name);
}

/** @param why what is wrong with the tier, as a predicate */
export function tierUnreachable(tier: string, why: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "TIER_UNREACHABLE",
    `The storage tier ${tier} ${why}. Nothing is lost by that: mount its folder, or make it readable, and try again; \`stemma storage tier list\` shows its state. Until then only what needs the tier fails.`,
    { tier, cause },
  );
}
