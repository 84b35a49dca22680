/**
 * A real small file system for tests that fill it. STEMMA_TEST_SMALL_DISK names a folder on one (of the
 * size that the test asks for; emptied by the tests, so one test at a time); without it a tmpfs is mounted
 * where that is allowed.
 */
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A small disk's folder and how to give it back, or why there is none. */
export async function smallDisk(
  mebibytes: number,
): Promise<{ readonly folder: string; release(): Promise<void> } | string> {
  const named = process.env["STEMMA_TEST_SMALL_DISK"];
  if (named !== undefined)
    return {
      folder: join(named, "stemma-small-disk"),
      release: () => rm(join(named, "stemma-small-disk"), { recursive: true, force: true }),
    };
  const folder = await mkdtemp(join(tmpdir(), "stemma-small-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${mebibytes}m`, "tmpfs", folder], {
    encoding: "utf8",
  });
  if (mounted.status === 0)
    return {
      folder,
      release: async () => {
        spawnSync("umount", [folder]);
        await rm(folder, { recursive: true, force: true });
      },
    };
  await rm(folder, { recursive: true, force: true });
  return `no small disk: ${(mounted.stderr ?? "mount cannot be run").trim() || "mount failed"}; set STEMMA_TEST_SMALL_DISK`;
}
