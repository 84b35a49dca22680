/** Compares the answers to random queries with those of an evaluator that goes through every combination. */
import assert from "node:assert/strict";
import { runQuery } from "../../../../../server/learning/query/run-query.js";
import {
  plainAnswer,
  plainModels,
  randomQuery,
  sourceOf,
  type Draw,
} from "../../../../helpers/query-fleet.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";

/** @returns the number of queries that found something and left something out */
export async function compareAnswers(seed: number, fleets: number, queriesOfEach: number): Promise<number> {
  let telling = 0;
  for (let fleet = 0; fleet < fleets; fleet++) {
    const next = seededNumbers(seed + fleet);
    const draw: Draw = (below) => Math.floor(next() * below);
    const models = plainModels(4 + draw(10), draw);
    const source = sourceOf(models);
    for (let at = 0; at < queriesOfEach; at++) {
      const query = randomQuery(models, draw);
      const { rows, total } = await runQuery(source, query.text, { offset: 0, limit: 10_000 });
      const found = rows.map((row) => row.map(({ versionId }) => versionId).join());
      const expected = plainAnswer(models, query);
      assert.deepEqual(found, expected, `seed ${seed + fleet}: ${query.text}`);
      assert.equal(total, expected.length);
      if (expected.length > 0 && expected.length < models.length) telling++;
      const offset = draw(3);
      const page = await runQuery(source, query.text, { offset, limit: 2 });
      assert.deepEqual(
        page.rows.map((row) => row.map(({ versionId }) => versionId).join()),
        expected.slice(offset, offset + 2),
      );
    }
  }
  return telling;
}
