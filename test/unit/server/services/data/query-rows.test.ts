/** SQL queries over SQLite files: rows as a table, and queries and files that are refused. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { keepRows, rowsOfQuery } from "../../../../../server/services/data/query-rows.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { writeSqlite } from "../../../../helpers/sqlite-file.js";
import { refusal } from "../../../shared/train/datasets/dataset-fixtures.js";

let folder: string;
let path: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-query-"));
  path = join(folder, "cars.sqlite");
  await writeSqlite(
    path,
    `CREATE TABLE cars (id INTEGER, name TEXT, wear REAL, note BLOB);
     INSERT INTO cars VALUES (1, 'a "quoted", one', 0.5, NULL), (9007199254740993, 'b', 1e300, x'00');`,
  );
});
after(() => rm(folder, { recursive: true, force: true }));

test("the rows of a query are a CSV table, kept once, with the hash of the database", async () => {
  const before = await readFile(path);
  const rows = await rowsOfQuery(path, "SELECT id, name, wear * 2 AS wear2 FROM cars ORDER BY id");
  assert.equal(rows.csv, 'id,name,wear2\n1,"a ""quoted"", one",1\n9007199254740993,b,2e+300\n');
  assert.equal(rows.count, 2);
  assert.match(rows.database, /^[0-9a-f]{64}$/);
  const kept = await keepRows(nodeFiles(), join(folder, "rows"), rows);
  assert.equal(await readFile(kept, "utf8"), rows.csv);
  assert.equal(await keepRows(nodeFiles(), join(folder, "rows"), rows), kept);
  assert.deepEqual(await readFile(path), before, "the database is only read");
});

test("queries that are not one SELECT of numbers and words are refused, and reach no file", async () => {
  const malformed = refusal("DATASET_MALFORMED");
  for (const query of [
    "",
    "SELEC 1",
    "SELECT * FROM lorries",
    "DELETE FROM cars",
    "SELECT 1; SELECT 2",
    "SELECT note FROM cars",
    "SELECT note FROM cars WHERE note IS NOT NULL",
    "SELECT 1e999",
    `ATTACH '${path}' AS other`,
    "x".repeat(10_001),
  ])
    await assert.rejects(rowsOfQuery(path, query), malformed, query.slice(0, 40));
  await assert.rejects(rowsOfQuery(path, "SELECT id FROM cars WHERE id < 0"), refusal("DATASET_EMPTY"));
  await assert.rejects(rowsOfQuery(join(folder, "none"), "SELECT 1"), refusal("FILE_MISSING"));
  await writeFile(join(folder, "not-a-database"), "not a database, but long enough to look at");
  await assert.rejects(rowsOfQuery(join(folder, "not-a-database"), "SELECT * FROM cars"), malformed);
});

test("a query that does not end is ended", async () => {
  const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
  await assert.rejects(rowsOfQuery(path, endless, 1000), refusal("DATASET_MALFORMED"));
});
