/** The table of candidates knows of each architecture the best model, as a sorted list does. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SavedRows } from "../../../../../server/storage/index/layers.js";
import { CandidateTable } from "../../../../../server/storage/lineage/candidate-table.js";
import type { PrefixCandidate } from "../../../../../server/storage/lineage/prefix-index.js";
import { TableSet } from "../../../../../shared/tables/table-set.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";

const qualities = [
  undefined,
  NaN,
  -Infinity,
  -1e300,
  -2,
  -1e-310,
  -0,
  0,
  1e-310,
  0.5,
  0.75,
  3,
  1e300,
  Infinity,
];
const measured = ({ quality }: PrefixCandidate): number =>
  quality === undefined || Number.isNaN(quality) ? -Infinity : quality + 0;

/** As PrefixCandidate says: the better one first, then the newer one, then the smaller id. */
function order(a: PrefixCandidate, b: PrefixCandidate): number {
  if (measured(a) !== measured(b)) return measured(a) > measured(b) ? -1 : 1;
  return b.savedAtMs - a.savedAtMs || (a.id < b.id ? -1 : 1);
}

test("the best of each architecture is found, over additions, removals and commits", async () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const tables = TableSet.empty(memoryFiles(), "/index");
  const saved: SavedRows = { rows: tables, commits: 0 };
  const table = new CandidateTable({ ranked: 1, ranks: 2 }, saved);
  const models = new Map<number, PrefixCandidate & { readonly architecture: Hash }>();
  for (let position = 0; position < 900; position++) {
    // One architecture has most of the models.
    const architecture = sha256(`a${random() < 0.7 ? 0 : below(40)}`);
    const model = {
      id: sha256(`m${position}`),
      quality: qualities[below(qualities.length)],
      savedAtMs: below(30),
    };
    table.add(position, architecture, model);
    models.set(position, { ...model, architecture });
    if (random() < 0.3) {
      const gone = below(position + 1);
      const { architecture: of, id } = models.get(gone) ?? { architecture, id: model.id };
      table.remove(gone, of, id);
      models.delete(gone);
      assert.ok(!table.has(gone));
    }
    if (position % 90 === 89) {
      const rows = table.parts.flatMap((part) => [...part.beginCommit()]);
      await tables.commit(
        rows.toSorted((a, b) => a.key.compare(b.key)),
        Buffer.from("head"),
      );
      for (const part of table.parts) part.committed();
      saved.commits++;
    }
    if (position % 30 > 0) continue;
    const architectures = [...new Set([...models.values()].map((each) => each.architecture))];
    assert.deepEqual([...table.architectures()], architectures.sort(), `seed ${seed}`);
    assert.equal(table.size, models.size);
    for (const of of architectures) {
      const all = [...models.values()].filter((each) => each.architecture === of);
      const [first, second] = all.toSorted(order);
      assert.equal(table.best(of)?.id, first!.id, `seed ${seed}`);
      assert.equal(table.best(of, first!.id)?.id, second?.id, `seed ${seed}`);
      assert.equal(measured(table.best(of)!), measured(first!));
      assert.equal(table.best(of)!.savedAtMs, first!.savedAtMs);
    }
  }
  assert.equal(table.best(sha256("unknown")), undefined);
});
