/** A line of saves in a store in memory, and the small models that tests save in it. */
import assert from "node:assert/strict";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { memoryStore } from "../../../../shared/objects/memory-store.js";
import type { ObjectPruner } from "../../../../shared/objects/object-store.js";
import type { ModelSource, UnhashedModel } from "../../../../shared/model/model.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import {
  loadSaveBase,
  saveModel,
  type SavedModel,
  type SaveModelOptions,
} from "../../../../shared/save/save-model.js";
import { opaqueModelSource } from "../../../../shared/save/model-source.js";
import { tensorOfSource, type Tensor } from "../../../../shared/tensor/tensor.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { hex } from "../model/vectors.js";

/** A check for `assert.rejects`: the code, and what the message must name. */
export const refusal =
  (code: ErrorCode, ...fragments: readonly string[]) =>
  (error: unknown): boolean =>
    isStemmaError(error, code) && fragments.every((fragment) => error.message.includes(fragment));
/** A tensor whose bytes state its seed. */
export const tensor = (seed: string | number, shape: readonly number[] = [3]): Tensor => ({
  dtype: "F32",
  shape,
  bytes: new Uint8Array(Buffer.alloc(4 * shape.reduce((a, b) => a * b, 1), `tensor ${seed} `)),
});
export const opaque = (contents: Readonly<Record<string, Tensor>>): ModelSource =>
  opaqueModelSource(
    Object.entries(contents).map(([name, content]) => ({ name, ...content })),
    { made: "by a test" },
  );

export const environment = { backend: "wasm", engine: "e1", stemma: "0.1.0", node: "v20.19.0" };
export const clock = manualClock();

/** One line of a device in a store in memory: each save is based on the one before. */
export class Line {
  readonly store: ObjectPruner = memoryStore({ clock, random: seededRandom(1) });
  readonly saved: SavedModel[] = [];
  async save(
    model: ModelSource | UnhashedModel,
    options: Partial<SaveModelOptions> = {},
  ): Promise<SavedModel> {
    const newest = this.saved.at(-1);
    const bases = newest === undefined ? [] : [await loadSaveBase(this.store, newest.versionId)];
    const saved = await saveModel(
      this.store,
      model,
      {
        name: "truck-0017-pack-soh",
        fleet: "north-harbour",
        device: "truck-0017",
        line: "pack-soh",
        sequence: this.saved.length + 1,
        bases,
        environment,
        ...options,
      },
      clock,
    );
    this.saved.push(saved);
    return saved;
  }
  async assertRecovers(saved: SavedModel, model: ModelSource): Promise<void> {
    const recovered = await recoverModel(this.store, saved.versionId, clock);
    assert.equal(recovered.verifiedRoot, saved.record.root);
    assert.deepEqual(recovered.leaves, model.leaves);
    assert.deepEqual(recovered.names, model.names);
    assert.deepEqual(recovered.architecture, model.architecture);
    for (const [i, source] of recovered.sources.entries())
      assert.equal(
        hex((await tensorOfSource(source)).bytes),
        hex((await tensorOfSource(model.sources[i] as (typeof model.sources)[number])).bytes),
      );
  }
}
