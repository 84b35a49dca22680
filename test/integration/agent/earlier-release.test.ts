/** An agent of release 0.1.0, recorded then, and the server of today; the home that it left, and the agent of today. */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, before, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import mqttPacket, { type IPublishPacket, type Packet } from "mqtt-packet";
import { startAgent } from "../../../agent/main.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { messageSignatureBytes, openServerMessage } from "../../../shared/trust/server-message.js";
import { loadEnrolment } from "../../../shared/trust/enrolment.js";
import { decodeEnvelope } from "../../../shared/wire/codec.js";
import type { Body, BodyOf } from "../../../shared/wire/messages.js";
import { parseTopic } from "../../../shared/wire/topics.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { startTestServer, testFleet, type TestServer } from "../../helpers/test-server.js";

const vectors = fileURLToPath(new URL("../../../../test/vectors/release-0.1.0/", import.meta.url));

interface Recorded {
  readonly from: "device" | "server";
  readonly packet: Packet;
}

interface Expected {
  readonly device: string;
  readonly line: string;
  readonly assigned: string;
  readonly sent: string;
  readonly waiting: string;
}

async function recordedSession(): Promise<readonly Recorded[]> {
  const text = await readFile(join(vectors, "session.jsonl"), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const { from, packet } = JSON.parse(line) as { from: Recorded["from"]; packet: string };
      const parsed: Packet[] = [];
      const parser = mqttPacket.parser({ protocolVersion: 4 });
      parser.on("packet", (each) => parsed.push(each));
      parser.parse(Buffer.from(packet, "base64"));
      return { from, packet: parsed[0] as Packet };
    });
}

function bodyOf({ from, packet }: Recorded): Body {
  const bytes = (packet as IPublishPacket).payload as Buffer;
  const envelope = from === "device" ? bytes : bytes.subarray(0, bytes.length - messageSignatureBytes);
  return decodeEnvelope(envelope).body;
}

/** The packet's kind, and for a publication the kind of its topic and of its message. */
function kindOf(recorded: Recorded): string {
  const { packet } = recorded;
  if (packet.cmd !== "publish") return packet.cmd;
  const topic = parseTopic("stemma", packet.topic);
  return topic?.kind === "block-up" ? topic.kind : `${topic?.kind ?? packet.topic} ${bodyOf(recorded).type}`;
}

const transferOf = (request: Recorded): string => (bodyOf(request) as BodyOf<"blockRequest">).transfer;

/** Plays the device's side of a recorded session, and waits before each packet for what the server answered then. */
class RecordedDevice {
  readonly received: Recorded[] = [];
  readonly #socket: Socket;
  readonly #waiters = new Set<() => void>();

  constructor(port: number) {
    this.#socket = connect(port, "127.0.0.1");
    const parser = mqttPacket.parser({ protocolVersion: 4 });
    parser.on("packet", (packet) => {
      this.received.push({ from: "server", packet });
      if (packet.cmd === "publish" && packet.qos === 1)
        this.#socket.write(mqttPacket.generate({ cmd: "puback", messageId: packet.messageId as number }));
      for (const wake of this.#waiters) wake();
    });
    this.#socket.on("data", (bytes) => parser.parse(bytes));
  }

  async play(session: readonly Recorded[]): Promise<void> {
    const answers = new Map<string, number>();
    // The server names a transfer, in letters of one length: the device of then would have repeated this name.
    let transfer: { readonly then: string; readonly now: string } | undefined;
    for (const recorded of session) {
      const kind = kindOf(recorded);
      if (kind === "puback") continue;
      if (recorded.from === "device") {
        const bytes = mqttPacket.generate(recorded.packet).toString("latin1");
        const sent = transfer === undefined ? bytes : bytes.replaceAll(transfer.then, transfer.now);
        this.#socket.write(Buffer.from(sent, "latin1"));
        continue;
      }
      const before = answers.get(kind) ?? 0;
      answers.set(kind, before + 1);
      const answered = (): readonly Recorded[] => this.received.filter((each) => kindOf(each) === kind);
      await this.#until(() => answered().length > before);
      if (kind === "down blockRequest")
        transfer = { then: transferOf(recorded), now: transferOf(answered()[before] as Recorded) };
    }
    this.#socket.end();
  }

  async #until(isThere: () => boolean): Promise<void> {
    while (!isThere())
      await new Promise<void>((resolve) => {
        this.#waiters.add(resolve);
      });
  }
}

describe("an agent of release 0.1.0", () => {
  let folder: string;
  let server: TestServer;
  let expected: Expected;
  const isStored = async (model: string): Promise<void> => {
    const { operations } = server.handle;
    const verified = await operations.verify({ fleet: testFleet, model });
    assert.equal(verified.versionId, model);
  };
  before(async () => {
    expected = JSON.parse(await readFile(join(vectors, "expected.json"), "utf8")) as Expected;
  });
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-earlier-"));
    await cp(vectors, folder, { recursive: true, verbatimSymlinks: true });
    // Years later, its newest fact is old.
    server = await startTestServer({ home: join(folder, "server-home"), acceptClock: true });
  });
  afterEach(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("is served as it was then", async () => {
    await isStored(expected.sent);
    const device = new RecordedDevice(Number(new URL(server.handle.mqttUrl).port));
    const session = await recordedSession();
    await device.play(session);
    await isStored(expected.waiting);
    const enrolment = await loadEnrolment(nodeFiles(), join(folder, "agent-home", "enrolment.json"));
    const birth = session.find((each) => kindOf(each) === "birth birth")?.packet as IPublishPacket;
    const challenge = decodeEnvelope(birth.payload as Buffer).correlation;
    for (const { packet } of device.received)
      if (packet.cmd === "publish")
        assert.ok(
          openServerMessage(enrolment.serverPublicKey, { ...enrolment, challenge }, packet.payload as Buffer),
          packet.topic,
        );
  });

  it("leaves a home on which the agent of today goes on", async () => {
    const home = join(folder, "agent-home");
    const enrolment = await loadEnrolment(nodeFiles(), join(home, "enrolment.json"));
    await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
    const log = new WaitableLog();
    const schedule = { everySeconds: null, afterSamples: null };
    const dataset = { reader: "images-generated" };
    const agent = await startAgent(
      {
        home,
        config: { format: 1, lines: { [expected.line]: { recipe: "fake", dataset, schedule } } },
        profile: { ...testProfile({}) },
        log,
      },
      { train: fakeTraining().train, checkRecipe: () => undefined },
    );
    try {
      await log.until("released", 1, { versionId: expected.waiting });
      await isStored(expected.waiting);
      const { versionId } = await agent.train(expected.line);
      await log.until("released", 1, { versionId });
      await isStored(versionId);
    } finally {
      await agent.close();
    }
  });
});
