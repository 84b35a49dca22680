/** A home with three versions, each trained from the one before with stored data, of which two can be dropped. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { rebuildVersion } from "../../../../../server/learning/replay/rebuild-on-demand.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { exampleTable } from "../../../../helpers/example-table.js";

const fleet = "cars";

export interface OpenedFleet {
  readonly operations: ServerOperations;
  readonly repository: FleetRepository;
  readonly home: Home;
  close(): Promise<void>;
}

export async function openFleet(path: string): Promise<OpenedFleet> {
  const home = await openNodeHome(path);
  const fleets = openFleets(home, rebuildVersion);
  return {
    operations: localOperations({ home, fleets, version: "test" }),
    repository: await fleets.get(fleet, { create: true }),
    home,
    close: async () => {
      await fleets.close();
      await home.close();
    },
  };
}

/** Works on an opened fleet and closes it. */
export async function withFleet<T>(path: string, work: (opened: OpenedFleet) => Promise<T>): Promise<T> {
  const opened = await openFleet(path);
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

/** @returns the folder of the home; nothing is dropped yet, and the data are registered only */
export async function trainedHome(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-dropped-"));
  const path = join(folder, "home");
  const location = join(folder, "table.csv");
  await writeFile(location, exampleTable());
  await withFleet(path, async ({ operations }) => {
    const parameters = { targets: "sum,large", ignored: "class", scaling: "standard" };
    await operations.addDataset({ fleet, name: "table", kind: "csv", location, parameters });
    const training = {
      fleet,
      recipe: "factorization-regression",
      data: "table",
      name: "sums",
      // Large enough that a drop frees more than it has to keep.
      parameters: { epochs: 1, factors: 256 },
    };
    await operations.train({ ...training, seed: "1" });
    await operations.train({ ...training, seed: "2", base: "sums:1" });
    await operations.train({ ...training, seed: "3", base: "sums:2" });
  });
  return { path, remove: () => rm(folder, { recursive: true, force: true }) };
}
