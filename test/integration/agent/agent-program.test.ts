/**
 * `stemma agent` as a program: exit statuses and messages that a script can rely on, and a clean exit on
 * SIGTERM.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { runAgentHere } from "../../helpers/run-stemma-here.js";
import { startTestServer } from "../../helpers/test-server.js";

const program = fileURLToPath(new URL("../../helpers/bundled-program.mjs", import.meta.url));
interface Ended {
  readonly status: number | null;
  readonly out: string;
  readonly err: string;
}

function start(
  args: readonly string[],
  onErr: (text: string, kill: (signal: NodeJS.Signals) => void) => void = () => undefined,
  input = "",
): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [program, "agent", ...args]);
    let out = "";
    let err = "";
    child.stdout.on("data", (part: Buffer) => {
      out += part.toString();
    });
    child.stderr.on("data", (part: Buffer) => {
      err += part.toString();
      onErr(err, (signal) => {
        child.kill(signal);
      });
    });
    child.stdin.end(input);
    child.on("close", (status) => {
      resolve({ status, out, err });
    });
  });
}

async function folder(t: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "stemma-program-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  return home;
}

describe("stemma agent", () => {
  it("prints help, and distinguishes usage errors from failures", async (t) => {
    const home = await folder(t);
    const help = await start(["--help"]);
    assert.equal(help.status, 0);
    for (const command of ["run", "status", "train", "samples", "activate", "inbox"])
      assert.match(help.out, new RegExp(command));
    assert.equal((await runAgentHere(["dance"])).status, 2);
    assert.equal((await runAgentHere(["status", "--home", home, "-o", "xml"])).status, 2);
    const nobody = await start(["status", "--home", home]);
    assert.equal(nobody.status, 1);
    assert.match(nobody.err, /AGENT_UNREACHABLE/);
    const missing = await runAgentHere(["run", "--home", home]);
    assert.equal(missing.status, 3);
    assert.match(missing.stderr, /FILE_MISSING/);
    await writeFile(join(home, "enrolment.json"), '{"kind": "stemma-enrolment"}');
    const broken = await runAgentHere(["run", "--home", home]);
    assert.equal(broken.status, 2);
    assert.match(broken.stderr, /ENROLMENT_INVALID/);
  });

  it("runs without its server, answers on its sockets, and exits cleanly on SIGTERM", async (t) => {
    const home = await folder(t);
    const server = await startTestServer();
    const enrolment = await server.enroll("v1", ["cam"]);
    await server.remove();
    await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
    const ask = async (...args: readonly string[]): Promise<Ended> => {
      const { status, stdout, stderr } = await runAgentHere([...args, "--home", home]);
      return { status, out: stdout, err: stderr };
    };
    let asked: Promise<readonly Ended[]> | undefined;
    const ended = await start(["run", "--home", home, "--log", "json"], (text, kill) => {
      if (asked !== undefined || !text.includes('"disconnected"')) return;
      asked = Promise.all([
        ask("status", "-o", "json"),
        start(["samples", "cam", "--home", home], undefined, '{"label": 1, "values": [1, 2]}\n'),
        start(["samples", "cam", "--home", home], undefined, '{"label": 1}\n'),
        ask("train", "cam"),
        ask("run"),
      ]).finally(() => {
        kill("SIGTERM");
      });
    });
    const [status, samples, bad, train, second] = (await asked) as readonly [
      Ended,
      Ended,
      Ended,
      Ended,
      Ended,
    ];
    assert.equal((JSON.parse(status.out) as { device: string }).device, "v1");
    assert.match(samples.out, /^1 sample/);
    assert.deepEqual([bad.status, /SAMPLE_INVALID/.test(bad.err)], [1, true]);
    assert.deepEqual([train.status, /no model to start from/.test(train.err)], [1, true]);
    assert.deepEqual([second.status, /HOME_LOCKED/.test(second.err)], [1, true]);
    assert.equal(ended.status, 0);
    for (const line of ended.err.trim().split("\n"))
      assert.equal(typeof (JSON.parse(line) as { event: string }).event, "string");
    assert.match(ended.err, /"stopped"/);
  });
});
