// The complete system under kill -9: a real server and real agents, each in its own process, fine-tune and
// report continuously and are killed at random moments. Every model for which a device holds a receipt must
// be recovered exactly, right after each kill and at the end.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseEnrolment, sealEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { tinyImport } from "../helpers/agent-fixtures.js";
import { startServerProcess, type ServerProcess } from "../../server/cli/simulation/server-process.js";

const full = process.env["STEMMA_TEST_FULL"] === "1";
const kills = Number(process.env["STEMMA_TEST_KILLS"] ?? (full ? 100 : 2));
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 20_261_121);
const fleet = "test-fleet";
const devices = [
  { device: "car", lines: ["cam", "soh"] },
  { device: "van", lines: ["cam"] },
  { device: "bus", lines: ["cam"] },
];
const agentProgram = fileURLToPath(new URL("../helpers/agent-with-fake-training.js", import.meta.url));

/** Numbers in [0, below), drawn from a seed. */
function chooser(from: number): (below: number) => number {
  let state = from >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

/** Counts the agents' events and keeps the acknowledged versions and the complaints. */
class AgentReports {
  readonly acknowledged = new Set<string>();
  readonly complaints: string[] = [];
  eventCount = 0;
  readonly #waiters = new Set<() => void>();
  note(device: string, line: string): void {
    const { event, version, text } = JSON.parse(line) as { event: string; version?: string; text?: string };
    if (event === "recorded" && version !== undefined) this.acknowledged.add(version);
    // An interrupted training or a message on a lost connection does no harm; these events do.
    if (/^(model-refused|model-damaged|model-lost|server-history-rewritten|not-admitted)$/.test(event))
      this.complaints.push(`${device}: ${event} ${text ?? ""}`);
    this.eventCount++;
    for (const wake of [...this.#waiters]) wake();
  }
  /** Resolves after this many more events. */
  async nextEvents(events: number): Promise<void> {
    const target = this.eventCount + events;
    while (this.eventCount < target)
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiters.delete(wake);
          resolve();
        };
        this.#waiters.add(wake);
      });
  }
  async acknowledgedAbove(count: number): Promise<void> {
    while (this.acknowledged.size <= count) await this.nextEvents(1);
  }
}

interface RunningAgent {
  readonly child: ChildProcess;
  readonly ended: Promise<unknown>;
}

class SystemUnderTest {
  readonly agents = new Map<string, RunningAgent>();
  server: ServerProcess | undefined;
  constructor(
    readonly root: string,
    readonly reports: AgentReports,
  ) {}
  home(device: string): string {
    return join(this.root, device);
  }

  async startServer(): Promise<ServerProcess> {
    this.server = await startServerProcess(join(this.root, "server"), fleet);
    return this.server;
  }
  /** The running server may have another port than the enrolment states. */
  async startAgent(device: string, lines: readonly string[], enrolment: Enrolment): Promise<void> {
    await mkdir(this.home(device), { recursive: true });
    await writeFile(
      join(this.home(device), "enrolment.json"),
      JSON.stringify(sealEnrolment({ ...enrolment, mqtt: [this.server?.mqttUrl], http: undefined })),
    );
    const child = spawn(process.execPath, [agentProgram, this.home(device), ...lines], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, STEMMA_EXIT_WITH_STDIN: "1" },
    });
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.reports.note(device, line);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.reports.complaints.push(`${device}: ${text.slice(0, 500)}`);
    });
    this.agents.set(device, {
      child,
      ended: new Promise((resolve) => {
        child.once("exit", resolve);
      }),
    });
  }
  async stopAgent(device: string, signal: NodeJS.Signals): Promise<void> {
    const agent = this.agents.get(device);
    if (agent === undefined) return;
    this.agents.delete(device);
    agent.child.kill(signal);
    await agent.ended;
  }
  async end(): Promise<void> {
    for (const device of [...this.agents.keys()]) await this.stopAgent(device, "SIGKILL");
    await this.server?.kill("SIGKILL");
    await rm(this.root, { recursive: true, force: true });
  }
}

it(`keeps every acknowledged model through ${kills} kills of server and agents (seed ${seed})`, async () => {
  const choose = chooser(seed);
  const reports = new AgentReports();
  const system = new SystemUnderTest(await mkdtemp(join(tmpdir(), "stemma-thread-")), reports);
  try {
    let server = await system.startServer();
    const { bytes, architecture } = await tinyImport("1", 6_000);
    await server.operations.import(
      {
        byteLength: bytes.length,
        chunks: (async function* () {
          yield bytes;
        })(),
      },
      { fleet, name: "base", architecture },
    );
    const enrolments = new Map<string, Enrolment>();
    for (const { device, lines } of devices)
      enrolments.set(
        device,
        parseEnrolment(
          await server.operations.enroll({
            fleet,
            device,
            lines,
            profile: "generic",
            initial: Object.fromEntries(lines.map((line) => [line, "base"])),
          }),
        ),
      );
    const start = async (device: string): Promise<void> => {
      const found = devices.find((one) => one.device === device);
      await system.startAgent(device, found?.lines ?? [], enrolments.get(device) as Enrolment);
    };
    for (const { device } of devices) await start(device);
    await reports.acknowledgedAbove(devices.length);

    const verified = new Set<string>();
    const verify = async (versions: Iterable<string>): Promise<void> => {
      for (const version of versions) {
        const report = await server.operations.verify({ fleet, model: version });
        assert.equal(report.versionId, version);
        verified.add(version);
      }
    };
    for (let kill = 0; kill < kills; kill++) {
      // Kills after a random number of events and of turns of the event loop, so that it interrupts any
      // kind of work.
      await reports.nextEvents(1 + choose(12));
      for (let turns = choose(200); turns > 0; turns--) await setImmediate();
      const victim = choose(2) === 0 ? "server" : (devices[choose(devices.length)]?.device ?? "car");
      const before = new Set(reports.acknowledged);
      if (victim === "server") {
        await server.kill("SIGKILL");
        for (const { device } of devices)
          await system.stopAgent(device, choose(2) === 0 ? "SIGKILL" : "SIGTERM");
        server = await system.startServer();
        for (const { device } of devices) await start(device);
      } else {
        await system.stopAgent(victim, "SIGKILL");
        await start(victim);
      }
      // Everything that was acknowledged since the last check, and a few older versions.
      await verify([...before].filter((version) => !verified.has(version)));
      await verify([...verified].filter(() => choose(verified.size) < 5));
      await reports.acknowledgedAbove(reports.acknowledged.size);
    }
    await verify(reports.acknowledged);
    assert.deepEqual((await server.operations.check({ fleet })).problems, []);
    assert.deepEqual(reports.complaints, [], "nothing was refused, damaged or lost on the way");
    for (const { device, lines } of devices)
      for (const line of lines) {
        const sequences = (await server.operations.models({ fleet, device, line, all: true })).map(
          ({ record }) => record.sequence,
        );
        assert.equal(new Set(sequences).size, sequences.length, `${device}/${line} has a number twice`);
      }
    console.log(
      `thread-kills: ${reports.acknowledged.size} acknowledged models exact after ${kills} kills, seed ${seed}`,
    );
  } finally {
    await system.end();
  }
});
