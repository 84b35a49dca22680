/** A fleet in this process whose devices have each sent a model of the line soh, for tests of averages. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import type { ModelMetadata } from "../../../../../shared/model/metadata.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import { saveModel } from "../../../../../shared/save/save-model.js";
import type { Hash, Tensor } from "../../../../../shared/tensor/tensor.js";

export const fleet = "cars";
export const line = "soh";

/** Tensors by name. */
export type Model = Readonly<Record<string, Tensor>>;

export function floats(values: readonly number[]): Tensor {
  return { dtype: "F32", shape: [values.length], bytes: new Uint8Array(Float32Array.from(values).buffer) };
}

export function wholes(values: readonly bigint[]): Tensor {
  return { dtype: "I64", shape: [values.length], bytes: new Uint8Array(BigInt64Array.from(values).buffer) };
}

export class AveragedFleet {
  home!: Home;
  fleets!: OpenFleets;
  operations!: ServerOperations;
  repository!: FleetRepository;
  private constructor(readonly path: string) {}

  static async open(): Promise<AveragedFleet> {
    const opened = new AveragedFleet(await mkdtemp(join(tmpdir(), "stemma-average-")));
    await opened.reopen();
    return opened;
  }

  async reopen(): Promise<void> {
    this.home = await openNodeHome(this.path);
    this.fleets = openFleets(this.home);
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

  /** Saves a model as an import does. @returns its id */
  async save(name: string, model: Model): Promise<Hash> {
    return (await this.repository.save(sourceOf(model), { name })).summary.versionId;
  }

  async enroll(device: string): Promise<void> {
    await this.repository.append({
      type: "enrolled",
      atMs: this.home.ports.clock.now(),
      device,
      publicKey: "",
      tokenHash: "",
      profile: "generic",
      lines: [line],
    });
  }

  /** Enrols the device, and records what it sends. `isConfirmed`: false, where the server has not read it back yet. */
  async sent(
    device: string,
    model: Model,
    {
      metadata,
      isConfirmed = true,
    }: { readonly metadata?: ModelMetadata; readonly isConfirmed?: boolean } = {},
  ): Promise<VersionSummary> {
    await this.enroll(device);
    const saved = await saveModel(
      this.repository.objects,
      sourceOf(model),
      {
        name: device,
        fleet,
        device,
        line,
        sequence: 1,
        environment: { backend: "none" },
        ...(metadata && { metadata }),
      },
      this.home.ports.clock,
    );
    const summary = await this.repository.record(saved.recordBytes, { generation: 1 });
    return isConfirmed ? await this.repository.confirmStored(summary.versionId) : summary;
  }
}

function sourceOf(model: Model): ReturnType<typeof opaqueModelSource> {
  return opaqueModelSource(Object.entries(model).map(([name, tensor]) => ({ name, ...tensor })));
}
