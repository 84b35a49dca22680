/** A home of a flow's models, and what its recoveries take. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { FleetRepository } from "../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../server/storage/repository/home.js";
import { openNodeHome } from "../../server/storage/repository/node-home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";
import { bytesBelow } from "./bytes-below.js";
import { median, type Named } from "./save-floors.js";

/** Milliseconds. */
export interface RecoveryFigures {
  readonly recover: RecoveredModel["steps"];
  readonly recoverFloorMs: number;
}

export const recoverMs = ({ recover }: Pick<RecoveryFigures, "recover">): number =>
  recover.loadMs + recover.rebuildMs + recover.checkEnvironmentMs + recover.verifyMs;

export function medianSteps(all: readonly RecoveredModel["steps"][]): RecoveredModel["steps"] {
  const middle = (step: keyof RecoveredModel["steps"]): number => median(all.map((each) => each[step]));
  return {
    loadMs: middle("loadMs"),
    rebuildMs: middle("rebuildMs"),
    checkEnvironmentMs: middle("checkEnvironmentMs"),
    verifyMs: middle("verifyMs"),
  };
}

/** Writes the file that the floor of a model's recoveries reads. */
export async function writeCached(folder: string, tensors: readonly Named[]): Promise<string> {
  const cached = join(folder, "cached");
  const file = await open(cached, "w");
  for (const { bytes } of tensors) await file.write(bytes);
  await file.close();
  return cached;
}

export interface OpenedHome {
  readonly home: Home;
  readonly repository: FleetRepository;
  /** Bytes of all files of its fleet. */
  readonly stored: () => Promise<number>;
  close(): Promise<void>;
}

export async function openHomeAt(path: string): Promise<OpenedHome> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "local");
  return {
    home,
    repository,
    stored: () => bytesBelow(join(path, "fleets")),
    close: async () => {
      await repository.close();
      await home.close();
    },
  };
}
