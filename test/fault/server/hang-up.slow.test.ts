/** A terminal that is closed, and readers that go away: nothing ends silently, and a server goes on without readers. */
import assert from "node:assert/strict";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { findLocalServer } from "../../../server/interface/http/local-server.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { spawnStemma } from "../../helpers/run-stemma.js";
import { ScriptedDevice } from "../../helpers/scripted-device.js";
import { startTestServer } from "../../helpers/test-server.js";

/** A program's streams as text, while it runs and when it has ended. */
class Watched {
  stdout = "";
  stderr = "";
  readonly ended: Promise<number | string>;
  constructor(readonly child: ChildProcessWithoutNullStreams) {
    child.stdout.on("data", (text: Buffer) => (this.stdout += text.toString()));
    child.stderr.on("data", (text: Buffer) => (this.stderr += text.toString()));
    this.ended = once(child, "close").then(
      ([code, signal]: readonly (number | string | null)[]) => code ?? signal ?? "",
    );
  }
  async says(stream: "stdout" | "stderr", text: string): Promise<void> {
    await pollUntil(`it says ${text}`, () => this[stream].includes(text));
  }
}

describe("a closed terminal and lost readers", () => {
  let folder: string;
  const running: ChildProcessWithoutNullStreams[] = [];
  const start = (...given: Parameters<typeof spawnStemma>): Watched => {
    const child = spawnStemma(...given);
    running.push(child);
    return new Watched(child);
  };
  const startServer = (name: string): Watched =>
    start(["server", "--home", join(folder, name), "--mqtt-port", "0", "--http-port", "0", "--tls", "none"]);
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-hang-up-"));
  });
  after(async () => {
    for (const child of running) child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  });

  it("end a server in good order, with a status that a service starts it again for", async () => {
    const server = startServer("hung-up");
    await server.says("stdout", "stemma server: mqtt");
    server.child.kill("SIGHUP");
    assert.equal(await server.ended, 130);
    assert.match(server.stderr, /stopping: .*SIGHUP/);
    assert.match(server.stderr, /Interrupted by SIGHUP: .*\[INTERRUPTED\]/);
    assert.equal(await findLocalServer(join(folder, "hung-up")), undefined);
  });

  it("end an agent in the same way, however often the signal comes", async () => {
    const server = await startTestServer();
    try {
      const enrolment = join(folder, "enrolment.json");
      await writeFile(enrolment, JSON.stringify(await server.enroll("van")));
      const agent = start(["run", "--home", join(folder, "agent"), "--enrolment", enrolment], {}, "agent");
      await agent.says("stderr", "welcomed");
      agent.child.kill("SIGHUP");
      agent.child.kill("SIGHUP");
      assert.equal(await agent.ended, 130);
      assert.match(agent.stderr, /stopping: SIGHUP/);
    } finally {
      await server.remove();
    }
  });

  it("end a command that follows its server, and say so", async () => {
    const server = await startTestServer();
    try {
      const enrolment = await server.enroll("van");
      let session = 0;
      const events = start(["fleet", "watch", "--plain", "--fleet", "test-fleet", "--home", server.home]);
      await pollUntil("it listens to the events", async () => {
        const device = await ScriptedDevice.connect(enrolment, {
          session: ++session,
          previousSession: session - 1,
        });
        await device.close();
        return events.stdout !== "";
      });
      events.child.kill("SIGHUP");
      assert.equal(await events.ended, 130);
      assert.match(events.stderr, /Interrupted by SIGHUP/);
    } finally {
      await server.remove();
    }
  });

  it("end no server whose standard output and error nobody reads", async () => {
    const home = join(folder, "unread");
    const server = startServer("unread");
    server.child.stdout.destroy();
    server.child.stderr.destroy();
    const { pid } = await pollUntil("the server runs", () => findLocalServer(home));
    assert.equal(server.child.exitCode, null);
    assert.equal((await findLocalServer(home))?.pid, pid);
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0);
  });
});
