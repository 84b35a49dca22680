/**
 * Makes the golden agent of a release: run it by hand at a release; no test runs it.
 *
 *     node dist/test/vectors/make-golden-agent.js test/vectors/release-0.1.0
 *
 * `agent-home` is the home of an agent that was stopped while its newest model waited to be sent, `server-home` the
 * home of the server at that time, and `session.jsonl` the next session of the two, packet by packet: one line of
 * `{"from":"device"|"server","packet":BASE64}` for each MQTT packet. `expected.json` names the models. Refuses a folder
 * that exists: it stands for what users have on disk and never changes.
 */
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import mqttPacket from "mqtt-packet";
import { startAgent, type AgentHandle } from "../../agent/main.js";
import { sealEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { fakeTraining, testProfile, WaitableLog } from "../helpers/agent-fixtures.js";
import { importBase } from "../helpers/agent-test-environment.js";
import { startTestServer, testFleet } from "../helpers/test-server.js";

const line = "cam";
const folder = resolve(process.argv[2] ?? "");
if (process.argv[2] === undefined || existsSync(folder))
  throw new Error("Name a folder that does not exist yet.");

/** Passes one connection on to the server, and notes the packets of both sides in their order. */
async function recordingProxy(serverPort: number): Promise<{
  readonly port: number;
  readonly lines: string[];
  close(): void;
}> {
  const lines: string[] = [];
  const note = (from: "device" | "server", source: Socket, target: Socket): void => {
    const parser = mqttPacket.parser({ protocolVersion: 4 });
    parser.on("packet", (packet) => {
      lines.push(JSON.stringify({ from, packet: mqttPacket.generate(packet).toString("base64") }));
    });
    source.on("data", (bytes) => {
      parser.parse(bytes);
      target.write(bytes);
    });
    source.on("close", () => target.destroy());
    source.on("error", () => target.destroy());
  };
  const proxy = createServer((device) => {
    const server = connect(serverPort, "127.0.0.1");
    note("device", device, server);
    note("server", server, device);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  return { port: (proxy.address() as AddressInfo).port, lines, close: () => proxy.close() };
}

const server = await startTestServer();
const home = await mkdtemp(join(tmpdir(), "stemma-golden-agent-"));
const log = new WaitableLog();
const run = async (enrolment: Enrolment): Promise<AgentHandle> => {
  await writeFile(join(home, "enrolment.json"), `${JSON.stringify(enrolment, null, 2)}\n`);
  return startAgent(
    {
      home,
      config: {
        format: 1,
        lines: {
          [line]: {
            recipe: "fake",
            dataset: { reader: "images-generated" },
            schedule: { everySeconds: null, afterSamples: null },
          },
        },
      },
      profile: { ...testProfile({}) },
      log,
    },
    { train: fakeTraining().train, checkRecipe: () => undefined },
  );
};

await importBase(server, "base", "1", 3);
const enrolment = await server.enroll("v1", [line]);
const base = await server.handle.operations.assign({ fleet: testFleet, device: "v1", line, model: "base" });
let agent = await run(enrolment);
await log.until("activated", 1, { line, name: "base" });
const sent = await agent.train(line);
await log.until("released", 1, { versionId: sent.versionId });
await server.handle.close();
const waiting = await agent.train(line);
await agent.close();
await mkdir(folder, { recursive: true });
// Reserves of disk are long, and sockets of the processes. The keys of this fleet protect nothing.
const isKept = (path: string): boolean => !/\.sock$|run\.json$|reserve$/.test(path);
await cp(server.home, join(folder, "server-home"), { recursive: true, verbatimSymlinks: true, filter: isKept });
await cp(home, join(folder, "agent-home"), { recursive: true, verbatimSymlinks: true, filter: isKept });
await server.restart();
const proxy = await recordingProxy(Number(new URL(server.handle.mqttUrl).port));
agent = await run(sealEnrolment({ ...enrolment, mqtt: [`mqtt://127.0.0.1:${proxy.port}`] }));
await log.until("released", 1, { versionId: waiting.versionId });
await agent.close();
proxy.close();
await writeFile(join(folder, "session.jsonl"), `${proxy.lines.join("\n")}\n`);
await writeFile(
  join(folder, "expected.json"),
  `${JSON.stringify(
    { device: "v1", line, assigned: base.versionId, sent: sent.versionId, waiting: waiting.versionId },
    null,
    2,
  )}\n`,
);
await server.remove();
await rm(home, { recursive: true, force: true });
