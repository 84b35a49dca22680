/** A backup beside an earlier one looks at what changed, and finds what a backup into a new folder finds. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { restoreBackup } from "../../../../../../server/storage/repository/backup/restore.js";
import type { FleetRepository } from "../../../../../../server/storage/repository/fleet-repository.js";
import { writeDurably } from "../../../../../../shared/files/durable-write.js";
import type { Files } from "../../../../../../shared/ports.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import { fineTuned, memoryHome, modelOf, openRepository, seededDraw, tensorsOf } from "../harness.js";

const packs = "/home/fleets/fleet-a/packs";

/** The packs that are opened while `work` runs. */
async function opensOf(files: Files, work: () => Promise<unknown>): Promise<number> {
  const open = files.open.bind(files);
  let opened = 0;
  Object.assign(files, {
    open: (...asked: Parameters<Files["open"]>) => {
      if (asked[0].startsWith(packs) && asked[1] === "read") opened++;
      return open(...asked);
    },
  });
  await work();
  Object.assign(files, { open });
  return opened;
}

test("a second backup opens the new packs only, in the store and where nothing was recorded none", async () => {
  const { home, files } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  for (let index = 0; index < 20; index++)
    await repository.save(modelOf(tensorsOf(`m${index}`, 1, 4)), { name: `m${index}` });
  const first = await opensOf(files, () => repository.backup("/backup"));
  assert.ok(first >= 20, `${first}`);
  assert.equal(await opensOf(files, () => repository.backup("/backup")), 0);
  await repository.save(modelOf(tensorsOf("new", 1, 4)), { name: "new" });
  const second = await opensOf(files, () => repository.backup("/backup"));
  assert.ok(second > 0 && second < first / 4, `${second} after ${first}`);
  // A folder of another name, as of another disk that was put in its place, is looked at as a whole.
  await files.rename("/backup", "/moved");
  assert.ok((await opensOf(files, () => repository.backup("/moved"))) >= 21);
  await repository.close();
  await home.close();
});

interface Loss {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** What happens to a fleet between two backups, by random draws. */
class Events {
  readonly #versions: Hash[] = [];
  #lost: Loss | undefined;
  #saved = 0;

  constructor(
    private readonly repository: FleetRepository,
    private readonly files: Files,
    private readonly advance: (ms: number) => void,
    private readonly draw: (below: number) => number,
  ) {}

  async next(): Promise<string> {
    const event = (["save", "save", "retire", "collect"] as const)[this.draw(4)] ?? "save";
    await this[event]();
    return event;
  }

  async save(): Promise<void> {
    const base = this.draw(2) === 0 ? undefined : this.#versions[this.draw(this.#versions.length + 1)];
    const tensors = tensorsOf(`base-${this.draw(3)}`, 3, 4);
    const model = modelOf(fineTuned(tensors, `m${this.#saved++}`));
    const { summary } = await this.repository.save(model, {
      name: "m",
      bases: base === undefined ? [] : [base],
    });
    this.#versions.push(summary.versionId);
  }

  async retire(): Promise<void> {
    const [versionId] = this.#versions.splice(this.draw(this.#versions.length), 1);
    if (versionId !== undefined) await this.repository.retire(versionId, "test");
  }

  async collect(): Promise<void> {
    this.advance(61_000);
    await this.repository.collect(await this.repository.planCollection());
  }

  /** Loses one pack: a new one, or one that the backup has. */
  async lose(): Promise<string> {
    const copied = new Set(await this.files.list("/backup/fleets/fleet-a/packs"));
    const all = (await this.files.list(packs)).filter((name) => name.endsWith(".pack"));
    const fresh = all.filter((name) => !copied.has(name));
    const names = fresh.length > 0 && this.draw(2) === 0 ? fresh : all;
    const name = names[this.draw(names.length)];
    if (name === undefined) return "no loss";
    this.#lost = { name, bytes: await this.files.read(join(packs, name)) };
    await this.files.remove(join(packs, name));
    return "loss";
  }

  async putBack(): Promise<void> {
    if (this.#lost === undefined) return;
    await writeDurably(this.files, join(packs, this.#lost.name), this.#lost.bytes);
    this.#lost = undefined;
    await this.repository.check();
  }
}

function ids(problems: readonly { readonly id: string }[]): readonly string[] {
  return problems.map(({ id }) => id).toSorted();
}

const firstSeed = process.env["STEMMA_TEST_SEED"] ?? "1";

test("after random saves, collections and losses it finds problems where a backup of everything does", async () => {
  for (let run = 0; run < 2; run++) {
    const seed = `${firstSeed}-${run}`;
    const { home, ports, files } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const draw = seededDraw(seed);
    const events = new Events(repository, files, (ms) => ports.clock.advance(ms), draw);
    const passed: string[] = [];
    for (let round = 0; round < 8; round++) {
      for (let count = 0; count < 3; count++) passed.push(await events.next());
      if (draw(2) === 0) passed.push(await events.lose());
      const { problems } = await repository.backup("/backup");
      const ofAll = await repository.backup("/whole");
      assert.deepEqual(ids(problems), ids(ofAll.problems), `seed ${seed}: ${passed.join(", ")}`);
      await files.remove("/whole");
      await events.putBack();
    }
    assert.deepEqual((await repository.backup("/backup")).problems, []);
    const [dry] = await restoreBackup("/backup", "/restored", ports, { dryRun: true });
    assert.deepEqual(dry?.problems, []);
    await repository.close();
    await home.close();
  }
});
