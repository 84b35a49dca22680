/**
 * The Python package against a server with TLS, and against one with an agent: every bit comes back, lies are found,
 * and the examples of its README run. STEMMA_TEST_PYTHON names a Python where the wheel is installed; without it the
 * sources run by python3.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import { ofBase, startAgentTestEnvironment } from "../../../../helpers/agent-test-environment.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";
import { runProgram } from "../../../suites/outside-suite.js";

const installed = process.env["STEMMA_TEST_PYTHON"];
const python = installed ?? "python3";
const folder = resolve(fileURLToPath(import.meta.url), "../../../../../../../python");
const wanted = ["numpy", "safetensors", "pytest"];

/** Words that say why the package cannot be run here; false where it can. */
async function missing(): Promise<string | false> {
  const found = await runProgram(python, ["-c", `import ${wanted.join(", ")}`]);
  return found.status === 0 ? false : `needs ${python} with ${wanted.join(", ")}`;
}

it(
  "the Python client saves, recovers and rolls out, and finds lies",
  { skip: await missing() },
  async (t) => {
    const home = await mkdtemp(join(tmpdir(), "stemma-python-"));
    t.after(() => rm(home, { recursive: true, force: true }));
    const secured = await startTestServer({ home, tls: "own", deviceTokens: false });
    t.after(() => secured.remove());
    const { server, home: agentHome, startAgent } = await startAgentTestEnvironment(t);
    const agent = await startAgent();
    await agent.log.until("activated", 1, ofBase);

    const { status, output } = await runProgram(
      python,
      ["-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "tests/end_to_end"],
      {
        cwd: folder,
        timeoutMs: 120_000,
        env: {
          ...(installed === undefined ? { PYTHONPATH: join(folder, "src") } : {}),
          STEMMA_SERVER: secured.handle.httpUrl,
          STEMMA_TOKEN: (await readHttpToken(home)) ?? "",
          STEMMA_CA: secured.handle.authorityFile ?? "",
          STEMMA_FLEET: testFleet,
          STEMMA_AGENT_HOME: agentHome,
          PLAIN_SERVER: server.handle.httpUrl,
          PLAIN_TOKEN: (await readHttpToken(server.home)) ?? "",
          PLAIN_FLEET: testFleet,
        },
      },
    );
    t.diagnostic(output.trim().split("\n").at(-1) ?? "");
    assert.equal(status, 0, output);
    assert.match(output, /\d+ passed/u);
  },
);
