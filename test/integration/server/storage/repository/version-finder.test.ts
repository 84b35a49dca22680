/** Versions are found where they are as the embedded catalog finds them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openJournal } from "../../../../../shared/journal/open-journal.js";
import { decodeMetadata, type ModelMetadata } from "../../../../../shared/model/metadata.js";
import type { SaveRecord } from "../../../../../shared/model/model.js";
import { openPackStore } from "../../../../../shared/objects/pack-store.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { Catalog } from "../../../../../server/storage/catalog/catalog.js";
import { openNedbCatalog } from "../../../../../server/storage/catalog/nedb-catalog.js";
import type { VersionQuery } from "../../../../../server/storage/catalog/version-query.js";
import { CatalogKeeper } from "../../../../../server/storage/repository/catalog-keeper.js";
import { readHistory } from "../../../../../server/storage/repository/read-history.js";
import { VersionFinder } from "../../../../../server/storage/repository/version-finder.js";
import { applyFact } from "../../../../../server/storage/repository/state/apply-fact.js";
import { factCodec } from "../../../../../server/storage/repository/state/fact-codec.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { closedHome, work } from "./random-fleet.js";

const folder = "/home/fleets/f";

test("any query gives the same page and total, before and after changes, from memory and from the disk", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  for (const indexEveryFacts of [Infinity, 9]) {
    const { ports } = await closedHome();
    await work({ ...ports, indexEveryFacts }, random, 90);
    const { files, clock, random: bytes } = ports;
    const journal = await openJournal(files, `${folder}/journal`, { codec: factCodec });
    const objects = await openPackStore(files, `${folder}/packs`, { clock, random: bytes });
    const table = await readHistory({ ports }, { fleet: "f", folder, journal, objects });
    const metadataOf = async (_: Hash, { objects: { metadata } }: SaveRecord): Promise<ModelMetadata> =>
      metadata === undefined ? {} : decodeMetadata(await objects.read("metadata", metadata));
    let embedded: Catalog | undefined;
    const open = async (): Promise<Catalog> => (embedded = await openNedbCatalog());
    const [catalog, finder] = [Infinity, -1].map(
      (maxVersions) => new CatalogKeeper({ table, objects, open, log: undefined, maxVersions }),
    );
    const narrow = new VersionFinder({ table, metadataOf, windowPositions: 16, maxPassed: 2 });
    const ids = [...table.state.versions.keys()];
    const any = () => table.state.versions.get(ids[below(ids.length)]!)!;
    const some = <Value>(values: readonly Value[]): Value => values[below(values.length)]!;
    const queries: readonly (() => VersionQuery)[] = [
      () => ({ name: `m${below(4)}` }),
      () => ({ namePrefix: some(["", "m", "m1", "x"]) }),
      () => ({ device: `car-${below(4)}` }),
      () => ({ line: `l${below(3)}` }),
      () => ({ state: some(["recorded", "stored", "released", "retired"] as const) }),
      () => ({ contentId: table.records.get(any().versionId)!.contentId }),
      () => ({ base: any().versionId }),
      () => ({ tag: `t${below(3)}` }),
      () => ({ approach: some(["snapshot", "update"] as const) }),
      () => ({ recordedFromMs: any().recordedAtMs }),
      () => ({ recordedUntilMs: any().recordedAtMs }),
      () => ({ includeRetired: random() < 0.5 }),
      () => ({ metadata: [{ key: "step", is: some(["<", ">=", "="] as const), value: below(90) }] }),
      () => ({ metadata: [{ key: "text", is: ">", value: "x0" }] }),
      () => ({ metadata: [{ key: "even", is: "=", value: true, text: "true" }] }),
    ];
    for (let n = 0; n < 150; n++) {
      const query: VersionQuery = {
        ...some(queries)(),
        ...(random() < 0.5 ? some(queries)() : {}),
        ...(random() < 0.5 ? { order: "oldest" as const } : {}),
        ...(random() < 0.5 ? { offset: below(30), limit: 1 + below(20) } : {}),
      };
      const said = `${JSON.stringify(query)}, seed ${seed}`;
      // A query that no list answers brings the embedded catalog up to date.
      await catalog!.find({ metadata: [{ key: "step", is: "=", value: 0 }] });
      const expected = await embedded!.find(query);
      assert.deepEqual(await finder!.find(query), expected, said);
      assert.deepEqual(await catalog!.find(query), expected, said);
      assert.deepEqual(await narrow.find(query), expected, said);
      if (random() > 0.2) continue;
      const { versionId } = any();
      applyFact(table.state, table.state.length, { type: "retired", atMs: 1, versionId, because: "x" });
      for (const each of [catalog!, finder!, narrow]) each.changed([versionId]);
    }
    await table.index.close();
  }
});
