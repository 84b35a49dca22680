/** The models that a user's own program trains candidates from: each written once, as a device installs it. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { layoutIdOf } from "../../../shared/layouts/base-layout.js";
import type { BaseModel } from "../../../shared/layouts/model-of-base.js";
import { slotFilesOf } from "../../../shared/layouts/slot-files.js";
import { writeBase } from "../../../shared/programs/job-folder.js";
import type { RecoveredModel } from "../../../shared/recover/recovery.js";
import { Streams } from "../../../shared/random/streams.js";
import type { Hash, TensorSource } from "../../../shared/tensor/tensor.js";
import type { PlannedModel } from "../../learning/query/evaluate/plan-evaluation.js";
import type { CandidateWorkOptions } from "./candidate-work.js";
import { derivedSource, inheritableLeaves } from "./save-derived.js";

export interface ProgramBase extends BaseModel {
  readonly described: NonNullable<BaseModel["described"]>;
  /** Null: it is derived, and not a version yet. */
  readonly versionId: Hash | null;
  readonly folder: string;
  readonly bytes: number;
}

type Options = Pick<CandidateWorkOptions, "repository" | "seed" | "folder" | "lease" | "signal">;

export class ProgramBases {
  readonly #written = new Map<PlannedModel, ProgramBase>();

  constructor(private readonly options: Options) {}

  /** One that a killed process left may be half there. */
  async of(model: PlannedModel): Promise<ProgramBase> {
    const known = this.#written.get(model);
    if (known !== undefined) return known;
    const { repository, folder } = this.options;
    const input = join(folder, `base-${this.#written.size}`);
    await rm(input, { recursive: true, force: true });
    await mkdir(join(input, "base"), { recursive: true, mode: 0o700 });
    const { architecture, leaves, names, sources } = await this.#sourceOf(model);
    if (architecture === undefined) throw new TypeError("a planned model has no architecture");
    const layoutId = model.derived ? undefined : layoutIdOf(repository.resolve(model.row.versionId).record);
    const layout = layoutId && (await repository.objects.read("attachment", layoutId));
    await writeBase(nodeFiles(), { input }, slotFilesOf({ architecture, leaves, names, sources }, layout));
    const byId = new Map(leaves.map(({ tensor }, at) => [tensor, sources[at] as TensorSource]));
    const base: ProgramBase = {
      ...{ layout, leaves, folder: join(input, "base"), described: { architecture, names } },
      // Drawn weights of a derived model are not in the store.
      objects: { openTensor: (id, how) => byId.get(id) ?? repository.objects.openTensor(id, how) },
      versionId: model.derived === undefined ? model.row.versionId : null,
      bytes: sources.reduce((sum, { byteLength }) => sum + byteLength, 0),
    };
    this.#written.set(model, base);
    return base;
  }

  async #sourceOf({
    row: { versionId },
    derived,
  }: PlannedModel): Promise<Pick<RecoveredModel, "architecture" | "leaves" | "names" | "sources">> {
    const { repository, seed, lease, signal } = this.options;
    await repository.ensureTensors(versionId, signal);
    if (derived === undefined) return await repository.recover(versionId, { lease });
    const leaves = await inheritableLeaves(repository, versionId, { ...derived, lease });
    const { architecture } = derived.model;
    return {
      ...(await derivedSource(repository, leaves, derived.model, new Streams(seed, 0))),
      architecture,
    };
  }
}
