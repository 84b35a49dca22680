/** A fleet with two trained versions, and versions whose stories lie about the second one, for tests of replays. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ReplayReport } from "../../../../../server/interface/api/models/evaluation-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { defaultTrainingLimits } from "../../../../../server/services/context/training-limits.js";
import { readOpenedProvenance } from "../../../../../server/services/context/opened-provenance.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { defaultIngestLimits } from "../../../../../server/fleet/ingest/limits.js";
import { ClaimRules } from "../../../../../server/learning/replay/claim-rules.js";
import { ReplayRunner, type ReplayRunnerParts } from "../../../../../server/learning/replay/replay-runner.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { defined } from "../../../../../shared/defined.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { objectsOf } from "../../../../../shared/model/record-objects.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import type { Provenance } from "../../../../../shared/provenance/provenance.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { copiedTensors } from "../../../../helpers/copied-tensors.js";

export const fleet = "cars";

export interface Lie {
  readonly plain?: Partial<Provenance>;
  /** Changes the committed members; undefined removes one. */
  readonly committed?: (members: Record<string, unknown>) => Record<string, unknown>;
  /** Flips a bit of this tensor. */
  readonly flipped?: number;
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  readonly measurements?: Uint8Array;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

/** What a server's runner of replays takes besides a home and its fleets. */
export const runnerParts = ({ ports }: Home) => ({
  version: "test",
  log: silentLog(),
  events: { emit: () => undefined },
  rules: new ClaimRules({ ...defaultIngestLimits, training: defaultTrainingLimits }, ports.clock),
  fleetOf: () => Promise.resolve({ claimEnded: () => Promise.resolve() }),
});

export class ReplayedFleet {
  home!: Home;
  fleets!: OpenFleets;
  operations!: ServerOperations;
  repository!: FleetRepository;
  private constructor(readonly path: string) {}

  /** Trains soh:1, and soh:2 from it. */
  static async train(): Promise<ReplayedFleet> {
    const trained = new ReplayedFleet(await mkdtemp(join(tmpdir(), "stemma-replay-")));
    await trained.open();
    const { operations } = trained;
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
    return trained;
  }

  async open(): Promise<void> {
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

  replay(model: string): Promise<ReplayReport> {
    return this.operations.replay({ fleet, model });
  }

  /** The second model under another name, with something in it that is not true. */
  async saveLie(
    name: string,
    { plain = {}, committed = (all) => all, flipped, metadata = {}, measurements, attachments }: Lie,
  ): Promise<string> {
    const truth = this.repository.resolve("soh:2");
    const opened = await readOpenedProvenance(this.repository, truth.record.objects);
    assert.ok(opened !== undefined);
    const members = Object.fromEntries(
      Object.entries(opened.openings).map(([member, { value }]) => [member, structuredClone(value)]),
    );
    const model = await this.repository.recover(truth.versionId);
    const tensors = await copiedTensors(model.sources, flipped);
    const { committed: _, ...shared } = opened.provenance;
    const { summary } = await this.repository.save(
      modelSourceOfTensors(model.architecture!, tensors, model.names),
      {
        name,
        bases: truth.record.bases,
        ...makeProvenance({ ...shared, ...plain }, committed(members), this.home.ports.random),
        metadata: { ...(await this.#metadataOf(truth)), ...metadata },
        ...defined({ measurements, attachments }),
      },
    );
    return `${summary.name}:${summary.version}`;
  }

  async #metadataOf({ versionId }: VersionSummary): Promise<Record<string, string | number | boolean>> {
    const { metadata = {} } = await this.operations.model({ fleet, model: versionId });
    return { ...metadata };
  }
}

/** A second server's home, to which versions of the first fleet are claimed. */
export class Claims {
  private constructor(
    private readonly from: ReplayedFleet,
    readonly home: Home,
    private readonly fleets: OpenFleets,
    readonly repository: FleetRepository,
  ) {}

  /** Has the first version, which claims start from. */
  static async open(from: ReplayedFleet): Promise<Claims> {
    const home = await openNodeHome(join(from.path, "claiming"));
    const fleets = openFleets(home);
    const claims = new Claims(from, home, fleets, await fleets.get(fleet, { create: true }));
    const base = await claims.#copy("soh:1", true);
    await claims.repository.record(await from.repository.objects.read("record", base), { generation: 1 });
    return claims;
  }

  async close(): Promise<void> {
    await this.fleets.close();
    await this.home.close();
  }

  /** What a device sends of a version. */
  async #copy(model: string, withTensors: boolean): Promise<Hash> {
    const { repository } = this.from;
    const { versionId, record } = repository.resolve(model);
    const { objects } = repository;
    const pack = await this.repository.objects.begin();
    for (const { kind, id, streams } of objectsOf(record))
      if (objects.has(id) && kind !== "engine")
        await (streams
          ? pack.putStream(kind as "data", objects.openStream("data", id))
          : pack.put(kind, await objects.read(kind, id)));
    await pack.put("record", await objects.read("record", versionId));
    if (withTensors)
      for (const { tensor } of await repository.leaves(versionId))
        await pack.putTensor(objects.openTensor(tensor), tensor);
    await pack.commit();
    return versionId;
  }

  async claim(model: string): Promise<Hash> {
    const versionId = await this.#copy(model, false);
    const record = await this.from.repository.objects.read("record", versionId);
    await this.repository.recordClaim(record, { generation: 1 });
    return versionId;
  }

  runner({
    proveClaim,
    ...parts
  }: Partial<ReplayRunnerParts> & {
    readonly proveClaim?: FleetRepository["proveClaim"];
  } = {}): ReplayRunner {
    const own = { ...this.repository, ...(proveClaim === undefined ? {} : { proveClaim }) };
    return new ReplayRunner({
      ...runnerParts(this.home),
      home: this.home,
      fleets: { ...this.fleets, get: () => Promise.resolve(own) },
      ...parts,
    });
  }

  /** Runs what is to be proved, and ends. */
  async run(runner = this.runner()): Promise<void> {
    runner.wake();
    await runner.idle();
    await runner.close();
  }

  /** The types of the facts about a version. */
  async factsOf(versionId: Hash): Promise<readonly string[]> {
    const found: string[] = [];
    for await (const { fact } of this.repository.journal.entries())
      if ("versionId" in fact && fact.versionId === versionId) found.push(fact.type);
    return found;
  }
}
