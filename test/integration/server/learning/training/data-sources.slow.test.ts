/** Data of a URL: trained with, replayed while they are the same, and read from the store when the URL is gone. */
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
import { workFolderOf } from "../../../../../server/services/context/work-folder.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { exampleTable } from "../../../../helpers/example-table.js";
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

  it("are fetched from a URL, compared with their hash, and replayed while they are the same", async () => {
    const added = await operations.addDataset({
      fleet,
      name: "remote",
      kind: "csv",
      location: `${url}/table.csv`,
      parameters,
    });
    assert.equal(added.location, `${url}/table.csv`);
    const moved = { fleet, name: "moved", kind: "csv", location: `${url}/moved.csv`, parameters };
    assert.equal((await operations.addDataset(moved)).hash, added.hash);
    await operations.removeDataset({ fleet, name: "moved" });
    await operations.train({
      fleet,
      recipe: "logistic-regression",
      data: "remote",
      name: "remote",
      seed: "7",
    });
    assert.equal((await operations.replay({ fleet, model: "remote" })).verdict, "proved");
    assert.equal((await operations.checkDataset({ fleet, name: "remote" })).ok, true);

    table = exampleTable().replace("0,0,0,", "5,0,0,");
    assert.equal((await operations.checkDataset({ fleet, name: "remote" })).ok, false);
    const changed = await operations.replay({ fleet, model: "remote" });
    assert.deepEqual([changed.verdict, changed.reason], ["unreplayable", "data-missing"]);
    await assert.rejects(
      operations.train({ fleet, recipe: "logistic-regression", data: "remote", name: "other", seed: "7" }),
      refusal("DATASET_MALFORMED"),
    );
    assert.equal((await operations.showDataset({ fleet, name: "remote" })).source.state, "changed");
    await assert.rejects(operations.pushDataset({ fleet, name: "remote" }), refusal("DATASET_MALFORMED"));

    table = exampleTable();
    await operations.pushDataset({ fleet, name: "remote" });
    table = undefined;
    await assert.rejects(operations.checkDataset({ fleet, name: "remote" }), refusal("FILE_MISSING"));
    assert.equal((await operations.replay({ fleet, model: "remote" })).verdict, "proved");
    await operations.train({
      fleet,
      recipe: "logistic-regression",
      data: "remote",
      name: "stored",
      seed: "7",
    });
    assert.deepEqual(await fetched(), [], "what was fetched is removed");
  });
});
