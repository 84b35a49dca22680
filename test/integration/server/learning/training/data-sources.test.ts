/**
 * Data that are managed elsewhere, by URL and by SQL query: trained with, checked whenever they are read, replayed, and
 * read from the store when their source is gone.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import { readOpenedProvenance } from "../../../../../server/services/context/opened-provenance.js";
import { workFolderOf } from "../../../../../server/services/context/work-folder.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { exampleTable } from "../../../../helpers/example-table.js";
import { writeSqlite } from "../../../../helpers/sqlite-file.js";
import { refusal } from "../../../../unit/shared/train/datasets/dataset-fixtures.js";

const fleet = "cars";
const parameters = { task: "classification", ignored: ["sum", "odd", "large"] };

describe("data that are managed elsewhere", () => {
  let path: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  let server: Server;
  let url: string;
  /** What the server of the data answers. */
  let table: string | undefined = exampleTable();
  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-sources-"));
    home = await openNodeHome(join(path, "home"));
    fleets = openFleets(home);
    operations = localOperations({ home, fleets, version: "test" });
    server = createServer((request, response) => {
      if (request.url === "/moved.csv") response.writeHead(302, { location: "/table.csv" }).end();
      else if (request.url !== "/table.csv" || table === undefined) response.writeHead(404).end();
      else response.end(table);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(async () => {
    server.close();
    server.closeAllConnections();
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  });
  const fetched = async (): Promise<string[]> => await readdir(workFolderOf(home)).catch(() => []);

  it("are fetched from a URL, and compared with their hash whenever they are read", async () => {
    const source = { kind: "csv", location: `${url}/table.csv`, parameters };
    const added = await operations.addDataset({ fleet, name: "remote", ...source });
    assert.equal(added.location, `${url}/table.csv`);
    const moved = { fleet, name: "moved", kind: "csv", location: `${url}/moved.csv`, parameters };
    assert.equal((await operations.addDataset(moved)).hash, added.hash);
    await operations.removeDataset({ fleet, name: "moved" });
    assert.equal((await operations.checkDataset({ fleet, name: "remote" })).ok, true);
    table = exampleTable().replace("0,0,0,", "5,0,0,");
    assert.equal((await operations.checkDataset({ fleet, name: "remote" })).ok, false);
    await assert.rejects(
      operations.train({ fleet, recipe: "logistic-regression", data: "remote", name: "other", seed: "7" }),
      refusal("DATASET_MALFORMED"),
    );
    await assert.rejects(operations.pushDataset({ fleet, name: "remote" }), refusal("DATASET_MALFORMED"));
    assert.deepEqual(await fetched(), [], "what was fetched is removed");
    table = exampleTable();
  });

  it("are refused where a URL cannot be used", async () => {
    const invalid = refusal("RECIPE_PARAMETERS_INVALID");
    for (const [kind, location] of [
      ["mnist", `${url}/table.csv`],
      ["csv", "ftp://localhost/table.csv"],
      ["csv", "file:///etc/passwd"],
      ["csv", url.replace("://", "://name:secret@")],
      ["csv", "http://"],
    ] as const)
      await assert.rejects(
        operations.addDataset({ fleet, name: "wrong", kind, location }),
        invalid,
        location,
      );
    const none = { fleet, name: "none", kind: "csv", location: `${url}/none.csv` };
    await assert.rejects(operations.addDataset(none), refusal("FILE_MISSING"));
    assert.deepEqual(await fetched(), []);
  });

  it("are rows of a query, which are kept with the query and the hash of the database", async () => {
    const [header = "", ...rows] = exampleTable().split("\n");
    const database = join(path, "cars.sqlite");
    await writeSqlite(
      database,
      `CREATE TABLE rows (${header.replace("class", "class TEXT")});
       INSERT INTO rows VALUES ${rows.map((row) => `(${row.replace(/(\w+)$/, "'$1'")})`).join(",")};`,
    );
    const query = "SELECT a, b, c, class FROM rows WHERE a >= 0 ORDER BY rowid";
    const added = await operations.addDataset({
      fleet,
      name: "queried",
      kind: "sql",
      location: database,
      parameters: { task: "classification", query },
    });
    assert.deepEqual([added.kind, added.parameters["query"]], ["csv", [query]]);
    await rm(database);
    await operations.train({
      fleet,
      recipe: "logistic-regression",
      data: "queried",
      name: "queried",
      seed: "7",
    });
    assert.equal((await operations.replay({ fleet, model: "queried" })).verdict, "proved");
    const { source } = await operations.showDataset({ fleet, name: "queried" });
    assert.equal(source.state, "unchanged");
    const repository = await fleets.get(fleet);
    const opened = await readOpenedProvenance(repository, repository.resolve("queried").record.objects);
    assert.ok(
      JSON.stringify(opened?.openings["data"]).includes("ORDER BY rowid"),
      "the record has the query",
    );
  });
});
