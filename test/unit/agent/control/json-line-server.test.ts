/** The local sockets: one response per line, in order, whatever input arrives; other users cannot connect. */
import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { callAgent } from "../../../../agent/control/json-line-client.js";
import { JsonLineServer, type Handler } from "../../../../agent/control/json-line-server.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";
import { testSeed } from "../../../helpers/crash-states.js";

async function serve(t: TestContext, handler: Handler): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-socket-"));
  const path = join(folder, "test.sock");
  const server = await JsonLineServer.listen(
    { path, mode: 0o600, maxLineBytes: 10_000, maxConnections: 8, log: silentLog() },
    handler,
  );
  t.after(async () => {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  });
  return path;
}

/** Sends raw bytes and collects the responses until the other side closes or `lines` have arrived. */
function exchange(
  path: string,
  bytes: Uint8Array | string,
  lines: number,
): Promise<readonly Record<string, unknown>[]> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(path, () => {
      socket.write(bytes);
    });
    const done = (): void => {
      socket.destroy();
      resolve(
        text
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => JSON.parse(line) as Record<string, unknown>),
      );
    };
    socket.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      if (text.split("\n").length > lines) done();
    });
    socket.on("end", done);
    socket.on("error", reject);
  });
}

describe("the agent's local sockets", () => {
  it("answers in order with the request's id, and reports errors with their code", async (t) => {
    const path = await serve(t, async (request) => {
      if (request.do === "fail") throw new StemmaError("LINE_UNKNOWN", "no such line");
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      return request["n"];
    });
    const answers = await exchange(
      path,
      `{"id":1,"do":"echo","n":5}\n{"id":"b","do":"fail"}\n{"id":3,"do":"echo","n":[7]}\n`,
      3,
    );
    assert.deepEqual(answers, [
      { id: 1, ok: true, result: 5 },
      { id: "b", ok: false, code: "LINE_UNKNOWN", message: "no such line" },
      { id: 3, ok: true, result: [7] },
    ]);
    assert.equal(await callAgent(path, { do: "echo", n: 9 }), 9);
    await assert.rejects(callAgent(path, { do: "fail" }), (error) => isStemmaError(error, "LINE_UNKNOWN"));
  });
  it("is accessible to its owner only", async (t) => {
    assert.equal((await stat(await serve(t, () => Promise.resolve(null)))).mode & 0o777, 0o600);
  });
  it("reports when nothing listens, and when a path is too long", async () => {
    await assert.rejects(callAgent("/nowhere/test.sock", { do: "status" }), (error) =>
      isStemmaError(error, "AGENT_UNREACHABLE"),
    );
    await assert.rejects(
      JsonLineServer.listen(
        {
          path: `/tmp/${"x".repeat(120)}`,
          mode: 0o600,
          maxLineBytes: 1,
          maxConnections: 1,
          log: silentLog(),
        },
        () => Promise.resolve(null),
      ),
      (error) => isStemmaError(error, "PATH_TOO_LONG"),
    );
  });
  it("closes a connection whose line never ends, and answers every invalid input", async (t) => {
    const path = await serve(t, () => Promise.resolve("fine"));
    assert.equal((await exchange(path, "x".repeat(20_000), 1))[0]?.["code"], "USAGE");
    for (const nonsense of ["{", "[]", "null", "5", '"text"', '{"id":1}', '{"do":7}', "\u0000", ""]) {
      assert.equal((await exchange(path, `${nonsense}\n`, 1))[0]?.["code"], "USAGE", nonsense);
    }
    const seed = testSeed();
    console.log(`# hostile lines, STEMMA_TEST_SEED=${seed}`);
    const random = seededNumbers(seed);
    const count = process.env["STEMMA_TEST_FULL"] === "1" ? 2_000 : 100;
    for (let round = 0; round < count; round++) {
      const bytes = Buffer.from('{"id":1,"do":"echo","n":5}');
      for (let flips = 0; flips < 4; flips++)
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      assert.ok(
        (await exchange(path, Buffer.concat([bytes, Buffer.from("\n")]), 1)).length >= 1,
        bytes.toString("hex"),
      );
    }
    assert.equal(await callAgent(path, { do: "still there" }), "fine");
  });
});
