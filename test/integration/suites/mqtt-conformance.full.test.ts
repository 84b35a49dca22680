/**
 * The embedded broker and the interoperability suite of MQTT 3.1.1 (eclipse/paho.mqtt.testing, client_test.py). Its
 * cases send from client to client, which the broker of a server never does, so its guards are open here. (README.md)
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { it } from "node:test";
import { compareCases, summaryOf } from "./compare-cases.js";
import { openBroker } from "./open-broker.js";
import { leftOut, readCases, readExpected, runProgram, stateOf, suiteFolder } from "./outside-suite.js";

const name = "paho.mqtt.testing";
/** Python is not built, so its file is where the sources are. */
const program = fileURLToPath(new URL("../../../../test/integration/suites/mqtt-cases.py", import.meta.url));

it(
  "is what the interoperability suite of MQTT 3.1.1 expects of a server, but for what is listed",
  { skip: leftOut(name), timeout: 590_000 },
  async (t) => {
    const suite = suiteFolder(name) ?? "";
    const folder = await mkdtemp(join(tmpdir(), "stemma-suite-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    if ((await runProgram("python3", ["--version"])).status !== 0) {
      t.skip("python3 is not on this machine");
      return;
    }
    const broker = await openBroker("test/nosubscribe");
    t.after(() => broker.close());
    const report = join(folder, "cases");
    const { status, output } = await runProgram(
      "python3",
      [program, join(suite, "interoperability"), String(broker.port), report],
      { timeoutMs: 480_000 },
    );
    const cases = await readCases(report);
    assert.ok(status === 0 && cases.length > 0, output);
    const comparison = compareCases(cases, await readExpected("expected-mqtt.json"));
    t.diagnostic(summaryOf(name, await stateOf(suite), comparison));
    assert.equal(comparison.differences.length, 0, comparison.differences.join("\n\n"));
  },
);
