/** A tier on the memory disk whose operations can be counted, delayed and made to fail. */
import { folderTierFiles } from "../../shared/objects/tiers/folder-tier-files.js";
import { tierUnreachable, type Tier, type TierFiles } from "../../shared/objects/tiers/tier-files.js";
import type { Files } from "../../shared/ports.js";

export type TierOperation = Exclude<keyof TierFiles, "name">;

export interface TestTier extends Tier {
  /** Operations since it was made. */
  readonly counts: Record<TierOperation, number>;
  /** Bytes read since it was made. */
  readBytes: number;
  /** Every operation fails with TIER_UNREACHABLE. */
  isAbsent: boolean;
  /** Called before each operation; may throw or wait. */
  before: (operation: TierOperation, name?: string) => Promise<void>;
}

export function testTier(files: Files, folder: string, name = "cold"): TestTier {
  const inner = folderTierFiles(files, folder);
  const counts = { list: 0, sizeOf: 0, read: 0, write: 0, remove: 0, removeHalfFiles: 0, freeBytes: 0 };
  const ran = async <T>(
    operation: TierOperation,
    file: string | undefined,
    run: () => Promise<T>,
  ): Promise<T> => {
    counts[operation]++;
    await tier.before(operation, file);
    if (tier.isAbsent) throw tierUnreachable(name, "is absent in this test");
    return await run();
  };
  const tier: TestTier = {
    name,
    counts,
    readBytes: 0,
    isAbsent: false,
    before: () => Promise.resolve(),
    files: {
      list: () => ran("list", undefined, () => inner.list()),
      sizeOf: (file) => ran("sizeOf", file, () => inner.sizeOf(file)),
      read: (file, at, length) =>
        ran("read", file, async () => {
          const bytes = await inner.read(file, at, length);
          tier.readBytes += length;
          return bytes;
        }),
      write: (file, bytes) => ran("write", file, () => inner.write(file, bytes)),
      remove: (file) => ran("remove", file, () => inner.remove(file)),
      removeHalfFiles: () => ran("removeHalfFiles", undefined, () => inner.removeHalfFiles()),
      freeBytes: () => ran("freeBytes", undefined, () => inner.freeBytes()),
    },
  };
  return tier;
}
