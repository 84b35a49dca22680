/**
 * Facts that stay in the journal are checked before a person's command writes them: a misspelt line or fleet, a model
 * of another shape than its line's, a base of another network. The table says of each operation that writes how it is
 * with that; an operation that is not in it fails the test.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { openFleets, type OpenFleets } from "../../../../server/services/context/open-fleets.js";
import { actingOperations, namingDefaultFleet } from "../../../../server/cli/default-fleet.js";
import { operationTable } from "../../../../server/interface/api/operation-table.js";
import type { ImportReport } from "../../../../server/interface/api/models/import-schemas.js";
import type { ImportOptions, ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { localOperations } from "../../../../server/operations/local-operations.js";
import type { Home } from "../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../server/storage/repository/node-home.js";
import type { ErrorCode } from "../../../../shared/errors.js";
import { fileOf } from "../interface/http/http-requests.js";
import { startTestServer } from "../../../helpers/test-server.js";

/**
 * - `checked`: refused where it is probably a mistake, unless it is forced; below is a case of each.
 * - `present`: it names what has to be there, and is refused where it is not.
 * - `undone`: another command takes it back.
 * - `fleet`: it may begin a fleet, whose name alone is checked.
 * - `decided`: it carries out what was checked when somebody decided it (an invitation, a signature, a rule).
 * - `none`: it writes no fact that stays.
 */
type Decision = "checked" | "present" | "undone" | "fleet" | "decided" | "none";

const decisions: Readonly<Record<string, Decision>> = {
  // Models and lines.
  import: "checked",
  assign: "checked",
  createRollout: "checked",
  enroll: "checked",
  invite: "checked",
  createBatch: "checked",
  setRetention: "checked",
  setDropPolicy: "checked",
  forecastRetention: "checked",
  // It ran or made that model before, whatever its shape.
  rollbackDevice: "present",
  undoRollout: "present",
  setRollout: "present",
  approveRollout: "present",
  // Recipe and data fit the base, or the training is refused; its line is the home's own.
  train: "present",
  reduce: "present",
  mergeModels: "present",
  averageFleet: "present",
  saveDerived: "present",
  evaluateQuery: "present",
  replayChanged: "present",
  replayChangedStory: "fleet",
  beginDeposit: "fleet",
  transfer: "present",
  // It expires.
  leaseLine: "none",
  endLease: "present",
  retire: "present",
  redact: "present",
  revoke: "present",
  removeDevice: "present",
  eraseDevices: "present",
  revokeBatch: "present",
  rebaseEngine: "present",
  spotCheck: "present",
  replay: "present",
  evaluate: "present",
  dropTensors: "present",
  // Taken back by the same command or its opposite.
  tag: "undone",
  hold: "undone",
  setSuccessor: "undone",
  labelDevices: "undone",
  setDevices: "undone",
  quarantineDevice: "undone",
  acceptDevices: "undone",
  keepTensors: "undone",
  removeEngine: "undone",
  revokeRecipe: "undone",
  removeDataset: "undone",
  saveQuery: "undone",
  deleteQuery: "undone",
  pushDataset: "undone",
  addWebhook: "undone",
  moveWebhook: "undone",
  removeWebhook: "undone",
  addToken: "undone",
  removeToken: "undone",
  addTier: "undone",
  removeTier: "undone",
  removeAuthority: "undone",
  queueReplay: "undone",
  cancelReplay: "undone",
  addDataset: "fleet",
  approveRecipe: "fleet",
  approveEngine: "fleet",
  addAuthority: "fleet",
  certify: "decided",
  publishReleases: "decided",
  publishOwnerTime: "decided",
  approveRestore: "decided",
  cosignJournal: "decided",
  takeRevocationList: "decided",
  renewDevice: "decided",
  applyRetention: "decided",
  applyDropPolicies: "decided",
  trainOnDevice: "none",
  evaluateOnDevice: "none",
  command: "none",
  testWebhook: "none",
  evaluateProgressively: "none",
  depositObjects: "none",
  // Every version of it was checked when it was begun, and names what has to be there.
  finishDeposit: "present",
  nearest: "none",
  verify: "none",
  checkDataset: "none",
  replayStory: "none",
  check: "none",
  collect: "none",
  reindex: "none",
  backup: "none",
  planStorage: "none",
  applyStorage: "none",
  applyTier: "none",
};

const network = (width: number): Record<string, Uint8Array> => ({
  a: new Uint8Array(width),
  b: new Uint8Array(2 * width),
});

describe("facts that stay", () => {
  let path: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  const fleet = "cars";

  async function importTensors(
    tensors: Record<string, Uint8Array>,
    options: Omit<ImportOptions, "fleet"> & { readonly fleet?: string },
  ): Promise<ImportReport> {
    const bytes = await fileOf(tensors);
    const chunks = Readable.from([bytes]);
    return await operations.import({ byteLength: bytes.length, chunks }, { fleet, ...options });
  }
  /** Refused with this code, and nothing is written; then taken with `force`. */
  async function refusedUnlessForced(
    code: ErrorCode,
    run: (force: { readonly force?: true }) => Promise<unknown>,
  ): Promise<void> {
    const length = async (): Promise<number> => (await fleets.get(fleet)).journal.head().length;
    const before = await length();
    await assert.rejects(run({}), (error: unknown) => {
      assert.equal((error as { code?: string }).code, code, String(error));
      assert.match(String(error), /--force/u);
      return true;
    });
    assert.equal(await length(), before, "something was written");
    await run({ force: true });
  }

  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-facts-"));
    home = await openNodeHome(path);
    fleets = openFleets(home);
    operations = localOperations({ home, fleets, version: "test" });
    // The first device and the first model of a line need no force.
    await operations.enroll({ fleet, device: "van-1", lines: ["pack-soh", "front-cam"] });
    await importTensors(network(8), { name: "soh" });
    await importTensors(network(8), { name: "soh-in-line", line: "pack-soh" });
    await operations.assign({ fleet, device: "van-1", line: "pack-soh", model: "soh:1" });
  });
  after(async () => {
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  });

  it("every operation that writes has a decision", () => {
    const writing = Object.entries(operationTable).flatMap(([name, { method, right }]) =>
      method === "GET" || right === "read" ? [] : [name],
    );
    assert.deepEqual(Object.keys(decisions).sort(), writing.sort());
  });

  it("a command that acts on a fleet which nobody named says which one it is", () => {
    const onFleet = Object.entries(operationTable).flatMap(([name, { params, body, method, right }]) => {
      const acts = method !== "GET" && right !== "read";
      return acts && ("fleet" in params.shape || "fleet" in body.shape || name === "import") ? [name] : [];
    });
    const silent = ["forecastRetention", "testWebhook", "evaluateProgressively", "nearest", "verify"];
    const looking = ["checkDataset", "replayStory", "check", "planStorage"];
    assert.deepEqual(
      [...actingOperations].sort(),
      onFleet.filter((name) => ![...silent, ...looking].includes(name)).sort(),
    );
    const said: string[] = [];
    const named = namingDefaultFleet(operations, "local", (line) => said.push(line));
    void named.models({ fleet: "local" }).catch(() => undefined);
    assert.deepEqual(said, []);
    for (let twice = 0; twice < 2; twice++)
      void named.tag({ fleet: "local", model: "m", tag: "t" }).catch(() => undefined);
    assert.deepEqual(said, ["stemma: in the fleet local, the default (--fleet names another)"]);
  });

  it("every operation that is checked takes `force`, also over the API", () => {
    for (const [name, decision] of Object.entries(decisions)) {
      const { body } = operationTable[name as keyof typeof operationTable];
      // The options of an import travel in its body.
      if (decision === "checked" && name !== "import") assert.ok("force" in body.shape, name);
    }
  });

  it("a model of another shape is not given to a line", async () => {
    await importTensors(network(9), { name: "other" });
    const given = { fleet, device: "van-1", line: "pack-soh", model: "other:1" };
    await assert.rejects(operations.assign({ ...given, dryRun: true }), { code: "SHAPE_DIFFERENT" });
    await refusedUnlessForced("SHAPE_DIFFERENT", (force) => operations.assign({ ...given, ...force }));
    // The right one again needs no force.
    await operations.assign({ ...given, model: "soh:1" });
    // A line that never had a model takes any.
    await operations.assign({ ...given, line: "front-cam" });
  });

  it("a model of another shape is not imported into a line, nor rolled out to it, nor its first model", async () => {
    await refusedUnlessForced("SHAPE_DIFFERENT", (force) =>
      importTensors(network(10), { name: "ten", line: "pack-soh", ...force }),
    );
    await importTensors(network(11), { name: "eleven" });
    const rollout = { fleet, name: "r", model: "eleven:1", line: "pack-soh", select: "all" };
    const { doubts = [] } = await operations.planRollout(rollout);
    assert.match(doubts.join(" "), /another shape/u);
    await refusedUnlessForced("SHAPE_DIFFERENT", (force) =>
      operations.createRollout({ ...rollout, ...force }),
    );
    const initial = { "pack-soh": "eleven:1" };
    await refusedUnlessForced("SHAPE_DIFFERENT", (force) =>
      operations.enroll({ fleet, device: "van-2", lines: ["pack-soh"], initial, ...force }),
    );
  });

  it("a base of another network is refused; one with another head is not", async () => {
    await refusedUnlessForced("BASE_UNRELATED", (force) =>
      importTensors({ x: new Uint8Array(50), y: new Uint8Array(51) }, { name: "z", base: "soh:1", ...force }),
    );
    await importTensors({ ...network(8), b: new Uint8Array(40) }, { name: "soh", base: "soh:1" });
  });

  it("a line near to a known one is refused; a new one, and one of a family, are not", async () => {
    await refusedUnlessForced("NAME_UNLIKELY", (force) =>
      operations.enroll({ fleet, device: "van-3", lines: ["pack-sho"], ...force }),
    );
    await refusedUnlessForced("NAME_UNLIKELY", (force) =>
      importTensors(network(8), { name: "y", line: "pck-soh", ...force }),
    );
    const wait = { policy: { wait: true } };
    const rollout = { fleet, name: "w", model: "soh:1", line: "front-cams", select: "all", ...wait };
    await refusedUnlessForced("NAME_UNLIKELY", (force) => operations.createRollout({ ...rollout, ...force }));
    const scope = { of: "line", line: "front_cam" } as const;
    await refusedUnlessForced("NAME_UNLIKELY", (force) =>
      operations.setRetention({ fleet, scope, rule: "1 days", ...force }),
    );
    const policy = { afterDays: 1, maxMinutes: 1 };
    await refusedUnlessForced("NAME_UNLIKELY", (force) =>
      operations.setDropPolicy({ fleet, scope, policy, ...force }),
    );
    await operations.enroll({ fleet, device: "van-4", lines: ["pack-soh-2", "engine-wear", "rear-cam"] });
    await operations.setRetention({ fleet, scope, rule: null });
  });

  it("a fleet near to a known one is not begun; another is, and no refused one is left behind", async () => {
    const device = { device: "van-1", lines: ["pack-soh"] };
    await assert.rejects(operations.enroll({ fleet: "carss", ...device }), { code: "NAME_UNLIKELY" });
    await assert.rejects(importTensors(network(8), { fleet: "Cars", name: "a" }), { code: "NAME_UNLIKELY" });
    await assert.rejects(
      operations.addDataset({ fleet: "cras", name: "d", kind: "battery-simulated", location: "" }),
      { code: "NAME_UNLIKELY" },
    );
    assert.deepEqual(await fleets.names(), ["cars"]);
    await assert.rejects(operations.models({ fleet: "carss" }), (error: unknown) => {
      assert.match(String(error), /Did you mean "cars"/u);
      return true;
    });
    await operations.enroll({ fleet: "carss", ...device, force: true });
    await operations.enroll({ fleet: "trucks", ...device });
    assert.deepEqual([...(await fleets.names())].sort(), ["cars", "carss", "trucks"]);
  });

  it("a server does not begin a fleet near to one of its home", async (t) => {
    const server = await startTestServer({ fleets: ["trucks", "truck"] });
    t.after(() => server.remove());
    await assert.rejects(server.restart({ fleets: ["trcuks"] }), { code: "NAME_UNLIKELY" });
    await server.restart();
    assert.deepEqual((await server.handle.operations.health()).fleets, ["truck", "trucks"]);
  });
});
