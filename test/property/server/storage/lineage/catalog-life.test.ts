/**
 * A catalog's life against a plain picture of it: models are saved, derived by transfer, retired, collected, their
 * packs merged, the nearest one is asked for, and the disk crashes in the middle of any of these.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTransfer } from "../../../../../server/operations/models/transfer-model.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { weightSlots } from "../../../../../shared/model/architecture.js";
import { leafPath } from "../../../../../shared/model/tree.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import type { ModelSource } from "../../../../../shared/model/model.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import { tensorId } from "../../../../../shared/tensor/hash.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../../../shared/tensor/tensor.js";
import {
  ArchitecturePool,
  PlainCatalog,
  type PlainLease,
  type PlainModel,
} from "../../../../helpers/catalog-model.js";
import { crashState, crashStyles } from "../../../../helpers/files/crash-states.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { recordingFiles, type RecordingFiles } from "../../../../helpers/files/recording-files.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { randomNumbers } from "../../../../helpers/random-architectures.js";

const isFull = process.env.STEMMA_TEST_FULL === "1";
const seed = Number(process.env.STEMMA_TEST_SEED ?? 1);
/** Models that are saved in all, those of transfers too. 10,000 take one to two minutes of a core. */
const models = Number(process.env.STEMMA_TEST_MODELS ?? (isFull ? 10_000 : 100));
const collections = Math.max(5, Math.floor(models / 250));
const crashes = collections;
const architectures = Math.min(400, Math.max(30, Math.floor(models / 15)));

/** Longer than a collection keeps what was just written. */
const graceMs = 61_000;
const leaseMinutes = 5;
/** What files have beside the bytes of live objects: headers and trailers of packs, headers and index entries. */
const slackBytesPerPack = 256;
const slackBytesPerObject = 128;

class CatalogLife {
  readonly #random = randomNumbers(seed);
  readonly #bytes = seededRandom(`catalog ${seed}`);
  readonly #clock = manualClock();
  readonly #pool = new ArchitecturePool(architectures, this.#random);
  #disk: RecordingFiles = recordingFiles(memoryFiles());
  #repository!: FleetRepository;
  #plain = new PlainCatalog();
  /** Before the latest operation, and at which event of the disk it began. */
  #before = new PlainCatalog();
  #beganAt = 0;
  saved = 0;

  async open(): Promise<void> {
    const ports = {
      files: this.#disk,
      clock: this.#clock,
      random: this.#bytes,
      environment: { backend: "none", stemma: "test" },
    };
    this.#repository = await openRepository(await openHome("/home", ports), "fleet-a");
  }

  /** Does one operation; with `crash` the disk crashes somewhere in it. */
  async operation(run: () => Promise<void>, crash = false): Promise<void> {
    this.#clock.advance(this.#random(2));
    if (crash) this.#before = new PlainCatalog(this.#plain);
    this.#beganAt = this.#disk.recording.events;
    await run();
    if (crash) await this.#crash();
  }

  /** A random operation. */
  drawn(): () => Promise<void> {
    const kind = this.#random(20);
    if (kind < 9 || this.#plain.live.size < 5) return () => this.save();
    if (kind < 11) return () => this.startTransfer();
    if (kind < 14) return () => this.finishTransfer();
    if (kind < 17) return () => this.retire();
    return () => this.query();
  }

  async save(): Promise<void> {
    const pool = this.#random(this.#pool.size);
    await this.#put(pool, new Map(), {});
  }

  async startTransfer(): Promise<void> {
    if (this.#plain.leases.size >= 8) return;
    const asking = this.#anyModel();
    const expected = this.#plain.nearest(this.#pool, asking.pool, asking.id);
    const { nearest, lease } = await startTransfer(this.#repository, {
      model: asking.id,
      minutes: leaseMinutes,
    });
    assert.equal(nearest?.versionId, expected?.model.id);
    if (expected === undefined || lease === null) return;
    const taken = new Map<string, Hash>();
    for (const [child, ancestor] of this.#pool.prefix(asking.pool, expected.model.pool)) {
      const layer = this.#pool.architecture(asking.pool).layers[child];
      layer?.weights.forEach((_, weight) => {
        const tensor = expected.model.tensors.get(leafPath(ancestor, weight));
        assert.ok(tensor !== undefined);
        taken.set(leafPath(child, weight), tensor);
      });
    }
    const { id, expiresAtMs } = lease;
    assert.equal(expiresAtMs, this.#clock.now() + leaseMinutes * 60_000);
    this.#plain.leases.set(id, { id, ancestor: expected.model, pool: asking.pool, taken, expiresAtMs });
  }

  async finishTransfer(): Promise<void> {
    const lease = [...this.#plain.leases.values()][this.#random(8)];
    if (lease === undefined) return;
    if (lease.expiresAtMs <= this.#clock.now()) {
      assert.throws(
        () => this.#repository.leases.require(lease.id),
        (error) => isStemmaError(error, "LEASE_EXPIRED") || isStemmaError(error, "LEASE_UNKNOWN"),
      );
    } else {
      const taken = await this.#readTaken(lease);
      await this.#put(lease.pool, taken, { bases: [lease.ancestor.id], lease: lease.id });
    }
    await this.#repository.leases.end(lease.id);
    this.#plain.leases.delete(lease.id);
  }

  /** Of leased ancestors more often: collections must spare what their leases hold. */
  async retire(): Promise<void> {
    const [leased] = [...this.#plain.leases.values()].filter(({ ancestor }) =>
      this.#plain.live.has(ancestor.id),
    );
    const { id } = leased !== undefined && this.#random(2) === 0 ? leased.ancestor : this.#anyModel();
    await this.#repository.retire(id, "it left the population");
    this.#plain.live.delete(id);
  }

  async query(): Promise<void> {
    const asked = this.#random(this.#pool.size);
    const expected = this.#plain.nearest(this.#pool, asked);
    const { nearest, indexed } = await this.#repository.nearest(this.#pool.architecture(asked));
    assert.deepEqual([nearest?.versionId, nearest?.layers], [expected?.model.id, expected?.layers]);
    assert.equal(indexed, this.#plain.live.size);
  }

  async collect(): Promise<void> {
    this.#clock.advance(graceMs);
    const repository = this.#repository;
    await repository.collect(await repository.planCollection());
    if (this.#random(2) === 0) await repository.mergePacks();
  }

  /** Every live model and lease is there; after a collection, nothing else is. */
  async checkBytes(): Promise<void> {
    const { objects } = this.#repository;
    const needed = this.#plain.neededTensors(this.#clock.now());
    const stored = [...objects.list()];
    const tensors = stored.filter(({ kind }) => kind === "tensor").map(({ id }) => id);
    assert.deepEqual(
      tensors.filter((id) => !needed.has(id)),
      [],
      "dead tensors",
    );
    assert.equal(new Set(tensors).size, needed.size, "missing tensors");
    const { packs, packBytes } = await this.#repository.stats();
    const bytes = stored.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
    const slack = packs * slackBytesPerPack + stored.length * slackBytesPerObject;
    assert.ok(packBytes <= bytes + slack, `${packBytes - bytes} bytes beside ${stored.length} objects`);
    await this.#checkFiles(packBytes);
  }

  /** Reads models back; all of them, or some drawn ones. */
  async checkModels(some?: number): Promise<void> {
    const live = [...this.#plain.live.values()];
    const checked = some === undefined ? live : Array.from({ length: some }, () => this.#anyModel());
    for (const { id, tensors } of checked) {
      const model = await this.#repository.recover(id);
      assert.deepEqual(new Map(model.leaves.map(({ path, tensor }) => [path, tensor])), tensors);
      for (const [i, source] of model.sources.entries()) {
        const tensor = await tensorOfSource(source);
        assert.equal(tensorId(tensor, tensor.bytes), model.leaves[i]?.tensor);
      }
    }
  }

  async close(): Promise<void> {
    await this.#repository.close();
  }

  #anyModel(): PlainModel {
    const live = [...this.#plain.live.values()];
    return live[this.#random(live.length)] as PlainModel;
  }

  /** No file of a pack that the store does not count. */
  async #checkFiles(packBytes: number): Promise<void> {
    const folder = "/home/fleets/fleet-a/packs";
    let bytes = 0;
    for (const name of await this.#disk.list(folder)) {
      if (!name.endsWith(".pack")) continue;
      bytes += (await this.#disk.stat(`${folder}/${name}`))?.size ?? 0;
    }
    assert.equal(bytes, packBytes, "bytes of packs that the store does not count");
  }

  async #readTaken({ id, ancestor, taken }: PlainLease): Promise<ReadonlyMap<string, Tensor>> {
    const layers = this.#repository.leases.require(id).tensors.map(({ path }) => path);
    const model = await this.#repository.recover(ancestor.id, { lease: id, layers });
    const read = new Map<string, Tensor>();
    for (const [path, tensor] of taken) {
      const source = model.sources[model.leaves.findIndex((leaf) => leaf.tensor === tensor)];
      assert.ok(source !== undefined, "a leased tensor is not among the ancestor's");
      const bytes = await tensorOfSource(source);
      assert.equal(tensorId(bytes, bytes.bytes), tensor);
      read.set(path, bytes);
    }
    return read;
  }

  async #put(
    pool: number,
    taken: ReadonlyMap<string, Tensor>,
    options: { readonly bases?: readonly Hash[]; readonly lease?: string },
  ): Promise<void> {
    const architecture = this.#pool.architecture(pool);
    const tensors = weightSlots(architecture).map(({ path, dtype, shape }): Tensor => {
      const count = 4 * shape.reduce((product, extent) => product * extent, 1);
      return taken.get(path) ?? { dtype, shape, bytes: this.#drawnBytes(count) };
    });
    const model: ModelSource = modelSourceOfTensors(architecture, tensors);
    const savedAtMs = this.#clock.now();
    const name = `m${this.saved++}`;
    const quality = this.#drawnQuality();
    const metadata = quality === undefined ? { tool: "test" } : { quality };
    const { summary } = await this.#repository.save(model, { name, metadata, ...options });
    this.#plain.live.set(summary.versionId, {
      id: summary.versionId,
      pool,
      tensors: new Map(model.leaves.map((leaf) => [leaf.path, leaf.tensor])),
      quality,
      savedAtMs,
    });
  }

  /** Few different ones, so that many are equal; some models have none, or a text. */
  #drawnQuality(): number | undefined {
    const drawn = this.#random(5);
    return drawn === 0 ? undefined : (drawn - 2) / 4;
  }

  /** Different each time: the first eight bytes count, the others repeat them. */
  #drawnBytes(count: number): Uint8Array {
    const bytes = Buffer.alloc(count);
    bytes.fill(this.#bytes.bytes(8));
    return bytes;
  }

  /** The disk as a crash in the latest operation left it; what that operation was to do is done, or is not. */
  async #crash(): Promise<void> {
    const { recording } = this.#disk;
    const at = this.#beganAt + this.#random(recording.events - this.#beganAt + 1);
    const style = crashStyles[this.#random(crashStyles.length)] as (typeof crashStyles)[number];
    const state = crashState(recording, at, style, this.#random(2 ** 31));
    await this.#repository.close();
    this.#disk = recordingFiles(state.files, state.root);
    await this.open();
    const live = new Set(
      this.#repository
        .versions()
        .filter((version) => version.state !== "retired")
        .map(({ versionId }) => versionId),
    );
    const isAfter =
      [...this.#plain.live.keys()].every((id) => live.has(id)) && live.size === this.#plain.live.size;
    const expected = isAfter ? this.#plain : this.#before;
    assert.deepEqual([...live].sort(), [...expected.live.keys()].sort(), state.description);
    this.#adopt(expected, at === recording.events, state.description);
  }

  /** Leases of both before and after must be held; those that the operation changed may be. */
  #adopt(expected: PlainCatalog, isDone: boolean, description: string): void {
    const after = this.#plain;
    const adopted = new PlainCatalog(expected);
    adopted.leases.clear();
    for (const [id, lease] of [...this.#before.leases, ...after.leases]) {
      const isCertain = after.leases.has(id) && (this.#before.leases.has(id) || isDone);
      const isExpired = lease.expiresAtMs <= this.#clock.now();
      let isHeld = true;
      try {
        this.#repository.leases.require(id);
      } catch {
        isHeld = false;
      }
      assert.ok(isHeld || !isCertain || isExpired, `the lease ${id} was lost: ${description}`);
      if (isHeld) adopted.leases.set(id, lease);
    }
    this.#plain = adopted;
  }
}

test(`the repository agrees with a plain picture of ${models} models`, async () => {
  const life = new CatalogLife();
  await life.open();
  const random = randomNumbers(seed ^ 0x5eed);
  const every = Math.floor(models / collections);
  const crashEvery = Math.floor(models / crashes);
  let collectedAt = 0;
  let crashedAt = 0;
  while (life.saved < models) {
    const isCrashing = life.saved >= crashedAt + crashEvery;
    if (isCrashing) crashedAt = life.saved;
    if (life.saved >= collectedAt + every) {
      collectedAt = life.saved;
      await life.operation(() => life.collect(), random(3) === 0);
      await life.operation(() => life.collect());
      await life.checkBytes();
      await life.checkModels(5);
    } else await life.operation(life.drawn(), isCrashing);
  }
  await life.collect();
  await life.checkBytes();
  await life.checkModels();
  await life.close();
});
