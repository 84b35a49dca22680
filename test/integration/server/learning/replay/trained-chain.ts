/** A fleet with a chain of three trained versions, which tests drop and recover. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { rebuildVersion } from "../../../../../server/learning/replay/rebuild-on-demand.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { isStemmaError, type ErrorCode } from "../../../../../shared/errors.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

export const fleet = "cars";
export const hasCode =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    isStemmaError(error, code);

export class TrainedChain {
  home!: Home;
  fleets!: OpenFleets;
  operations!: ServerOperations;
  repository!: FleetRepository;
  private constructor(readonly path: string) {}

  /** Trains soh:1, soh:2 from it, and soh:3 from that. */
  static async train(): Promise<TrainedChain> {
    const chain = new TrainedChain(await mkdtemp(join(tmpdir(), "stemma-drop-")));
    await chain.open();
    const { operations } = chain;
    await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 1 },
    });
    const training = { fleet, recipe: "battery-soh", data: "cells", name: "soh", parameters: { epochs: 1 } };
    await operations.train({ ...training, seed: "7" });
    await operations.train({ ...training, seed: "8", base: "soh:1" });
    await operations.train({ ...training, seed: "9", base: "soh:2" });
    return chain;
  }

  /** @param canTrain false: what is dropped cannot be trained again */
  async open({ canTrain = true } = {}): Promise<void> {
    this.home = await openNodeHome(this.path);
    this.fleets = canTrain ? openFleets(this.home, rebuildVersion) : openFleets(this.home);
    this.operations = localOperations({ home: this.home, fleets: this.fleets, version: "test" });
    this.repository = await this.fleets.get(fleet, { create: true });
  }

  async close(): Promise<void> {
    await this.fleets.close();
    await this.home.close();
  }

  async remove(): Promise<void> {
    await this.close();
    await rm(this.path, { recursive: true, force: true });
  }

  version(name: string): VersionSummary {
    return this.repository.resolve(name);
  }

  async tensorsOf(name: string): Promise<readonly Hash[]> {
    return (await this.repository.leaves(this.version(name).versionId)).map(({ tensor }) => tensor);
  }

  async storedOf(name: string): Promise<number> {
    return (await this.tensorsOf(name)).filter((tensor) => this.repository.objects.has(tensor)).length;
  }

  async collect(): Promise<void> {
    await this.repository.collect(await this.repository.planCollection());
  }

  /** Opened again, so that no lease of a recovery protects anything. */
  async collectAfresh(): Promise<void> {
    await this.close();
    await this.open();
    await this.collect();
  }
}
