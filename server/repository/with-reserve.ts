/**
 * Runs work that frees space. A command that takes the lock on a full disk gets the reserve beside the lock; a
 * server holds the lock already, so it gives the reserve up here, when the work finds the disk full.
 */
import { isStemmaError } from "../../shared/errors.js";
import type { DiskReserve } from "./home.js";

/**
 * Runs `work`, and once more without the reserve where the disk is full. `work` must change nothing where it
 * fails with DISK_FULL. Afterwards the reserve is made again where there is space.
 */
export async function withReserve<T>(
  reserve: DiskReserve | undefined,
  home: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isStemmaError(error, "DISK_FULL") || reserve === undefined || !(await reserve.claim(home)))
      throw error;
    return await work();
  } finally {
    await reserve?.keep(home);
  }
}
