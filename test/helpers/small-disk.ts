/**
 * A real small file system for tests that fill it. STEMMA_TEST_SMALL_DISK names a folder on a file system of
 * the size that the test asks for; tests empty that folder, so run one such test at a time. Without the
 * variable a tmpfs is mounted, where the process may mount.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Returns the folder of a small disk and how to release it, or the reason why none is available. */
export async function mountSmallDisk(
  mebibytes: number,
): Promise<{ readonly folder: string; release(): Promise<void> } | string> {
  const folderFromEnvironment = process.env["STEMMA_TEST_SMALL_DISK"];
  if (folderFromEnvironment !== undefined)
    return {
      folder: join(folderFromEnvironment, "stemma-small-disk"),
      release: () => rm(join(folderFromEnvironment, "stemma-small-disk"), { recursive: true, force: true }),
    };
  const folder = await mkdtemp(join(tmpdir(), "stemma-small-"));
  const mount = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${mebibytes}m`, "tmpfs", folder], {
    encoding: "utf8",
  });
  if (mount.status === 0)
    return {
      folder,
      release: async () => {
        // Lazily: a killed process may hold a file for a moment longer.
        spawnSync("umount", ["-l", folder]);
        await rm(folder, { recursive: true, force: true });
      },
    };
  await rm(folder, { recursive: true, force: true });
  return `no small disk: ${(mount.stderr ?? "mount cannot be run").trim() || "mount failed"}; set STEMMA_TEST_SMALL_DISK`;
}

/** Makes a small disk read-only. @returns why that is not possible here */
export function makeReadOnly(folder: string): string | undefined {
  const { status, stderr } = spawnSync("mount", ["-o", "remount,ro", folder], { encoding: "utf8" });
  return status === 0 ? undefined : `no read-only disk: ${(stderr ?? "mount cannot be run").trim()}`;
}

/** Writes until the disk has no free byte. */
export async function fillDisk(path: string): Promise<void> {
  const file = await open(path, "w");
  try {
    for (let piece = 1024 * 1024; piece >= 1;) {
      try {
        await file.appendFile(new Uint8Array(piece));
      } catch (error) {
        assert.equal((error as { code?: string }).code, "ENOSPC");
        piece = Math.floor(piece / 2);
      }
    }
  } finally {
    await file.close();
  }
}
