/** Devices fine-tune models of tables and report how: the tests of the lines that a file names. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import { testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { exampleTable } from "../../helpers/example-table.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../helpers/test-server.js";

const allLines = {
  pairs: {
    recipe: "factorization-regression",
    parameters: { epochs: 2, factors: 3 },
    data: { targets: "sum", ignored: "class,odd,large", scaling: "standard" },
  },
  labels: {
    recipe: "classifier-chain",
    parameters: { epochs: 2 },
    data: { task: "multi-label", targets: "odd,large", ignored: "sum,class" },
  },
  votes: {
    recipe: "bagging",
    parameters: { inner: "factorization-regression", members: 3, epochs: 2 },
    data: { targets: "sum", ignored: "class,odd,large", scaling: "standard" },
  },
  groups: {
    recipe: "k-means",
    parameters: { clusters: 4 },
    data: { task: "anomaly", ignored: "class,odd,large", scaling: "standard" },
  },
} as const;

/** One device trains each of the lines, and the server proves what it reports. */
export function testTableClaims(names: readonly (keyof typeof allLines)[]): void {
  const lines = names.map((name) => [name, allLines[name]] as const);
  let server: TestServer;
  let operations: ServerOperations;
  let home: string;
  let agent: AgentHandle;
  const log = new WaitableLog();
  const listening = new AbortController();
  const released = new Set<string>();
  let onReleased = (): void => undefined;

  before(async () => {
    server = await startTestServer();
    ({ operations } = server.handle);
    home = await mkdtemp(join(tmpdir(), "stemma-tables-"));
    const table = join(home, "table.csv");
    await writeFile(table, exampleTable());
    for (const [name, { recipe, parameters, data }] of lines) {
      await operations.addDataset({ fleet, name, kind: "csv", location: table, parameters: data });
      await operations.train({ fleet, recipe, data: name, name, parameters });
    }
    const enrolment = await server.enroll(
      "van",
      names,
      Object.fromEntries(names.map((name) => [name, name])),
    );
    await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
    const settings = lines.map(([name, { recipe, parameters, data }]) => [
      name,
      {
        recipe,
        parameters,
        dataset: { reader: "csv", location: table, parameters: data },
        approach: "provenance",
        sendSamples: true,
        schedule: { everySeconds: null, afterSamples: null },
      },
    ]);
    agent = await startAgent({
      home,
      config: { format: 1, lines: Object.fromEntries(settings) as never },
      profile: { ...testProfile() },
      log,
    });
    for (const line of names) await log.until("activated", 1, { line });
    void (async () => {
      for await (const event of operations.events(listening.signal))
        if (event.event === "released") {
          released.add(event.versionId);
          onReleased();
        }
    })();
  });
  after(async () => {
    listening.abort();
    await agent.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });

  async function untilReleased(versionId: string): Promise<void> {
    while (!released.has(versionId))
      await new Promise<void>((resolve) => {
        onReleased = resolve;
      });
  }

  for (const line of names)
    it(`${line}: proved bit-exact`, async () => {
      await operations.trainOnDevice({ fleet, device: "van", line, parameters: {} });
      const { fields } = await log.until("trained", 1, { line });
      const versionId = String(fields["versionId"]);
      await untilReleased(versionId);
      const { claim, replayed, proof } = await operations.model({ fleet, model: versionId });
      assert.deepEqual([claim?.isProved, replayed?.verdict, replayed?.grade], [true, "proved", "bit-exact"]);
      // What the device says of its own samples is its statement, however well it agrees with itself.
      assert.equal(replayed?.description, "sent");
      assert.match(replayed.because, /^tensors and measurements proved, description stated/);
      for (const name of ["data.reader", "data.columns", "data.split"]) {
        assert.equal(proof?.stated.includes(name), true, name);
        assert.equal(proof?.rebuilt.includes(name), false, name);
      }
      assert.ok(proof?.rebuilt.includes("metadata.metric.after"));
      await operations.verify({ fleet, model: versionId });
    });
}
