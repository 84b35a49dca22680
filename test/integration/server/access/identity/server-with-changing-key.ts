/** A server whose key changes, and what devices that know it do about that: for the quick and the slow tests of it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { invitedExchange, renewalExchange } from "../../../../../agent/identity/exchanges.js";
import { deviceKeyOf } from "../../../../../agent/identity/device-key.js";
import { Credentials } from "../../../../../agent/identity/credentials.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { rotateServerKey, type RotateOptions } from "../../../../../server/storage/repository/rotate-key.js";
import { startServer } from "../../../../../server/main.js";
import { nodeRandom, silentLog } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { loadEnrolment, type Enrolment } from "../../../../../shared/trust/enrolment.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

export const files = nodeFiles();
export const random = nodeRandom();
export const clock = { monotonic: () => 0 };
export const log = silentLog();
export const dayMs = 86_400_000;
export const overlap = { overlapMs: 90 * dayMs };

/** A server with its own authority, whose key changes, and the homes of devices that know it. */
export class ServerWithChangingKey {
  readonly #ports: { readonly mqttPort: number; readonly httpPort: number };
  private constructor(
    readonly server: TestServer,
    readonly folder: string,
  ) {
    const portOf = (url: string): number => Number(new URL(url.replace("mqtts:", "https:")).port);
    this.#ports = {
      mqttPort: portOf(server.handle.mqttUrl),
      httpPort: portOf(server.handle.httpUrl),
    };
  }
  static async start(t: TestContext): Promise<ServerWithChangingKey> {
    const folder = await mkdtemp(join(tmpdir(), "stemma-server-key-"));
    const server = await startTestServer({ tls: "own" });
    t.after(async () => {
      await server.remove();
      await rm(folder, { recursive: true, force: true });
    });
    return new ServerWithChangingKey(server, folder);
  }
  path(device: string): string {
    return join(this.folder, `${device}.json`);
  }
  /** On the ports of before, which devices know. */
  async restart(): Promise<void> {
    this.server.handle = await startServer(
      { home: this.server.home, fleets: [testFleet], tls: "own", ...this.#ports },
      log,
    );
  }
  async whileStopped(
    work: (home: Awaited<ReturnType<typeof openNodeHome>>) => Promise<unknown>,
  ): Promise<void> {
    await this.server.handle.close();
    const home = await openNodeHome(this.server.home);
    try {
      await work(home);
    } finally {
      await home.close();
    }
    await this.restart();
  }
  rotate(options: RotateOptions = overlap): Promise<void> {
    return this.whileStopped((home) => rotateServerKey(home, options));
  }
  async invite(device: string): Promise<string> {
    const invitation = await this.server.handle.operations.invite({
      fleet: testFleet,
      device,
      lines: ["line"],
    });
    const file = join(this.folder, `${device}.invitation.json`);
    await writeFile(file, JSON.stringify(invitation));
    return file;
  }
  async enrolWith(file: string, device: string): Promise<Enrolment> {
    const exchange = await invitedExchange({ files, random, path: this.path(device) }, file);
    return exchange.take(await exchange.send(await exchange.request()));
  }
  async enrol(device: string): Promise<Enrolment> {
    return this.enrolWith(await this.invite(device), device);
  }
  async credentials(device: string): Promise<Credentials> {
    const path = this.path(device);
    const enrolment = await loadEnrolment(files, path);
    return new Credentials({
      files,
      path,
      enrolment,
      deviceKey: deviceKeyOf(enrolment, undefined),
      clock,
      log,
    });
  }
  async dial(device: string): Promise<Enrolment> {
    const socket = await (await this.credentials(device)).dial(this.server.handle.mqttUrl);
    socket.destroy();
    return loadEnrolment(files, this.path(device));
  }
  /** As `stemma agent renew --request`, `device sign` and `agent renew --response` do. */
  async renewByFiles(device: string): Promise<Enrolment> {
    const exchange = await renewalExchange({ files, path: this.path(device), clock, log });
    const request = await exchange.request();
    return exchange.take(await this.server.handle.operations.certify({ request }));
  }
  get key(): Promise<string> {
    return this.server.handle.operations.health().then(({ publicKey }) => publicKey ?? "");
  }
  async connects(enrolment: Enrolment, session: number): Promise<void> {
    const device = await ScriptedDevice.connect(enrolment, { session });
    await device.birth();
    await device.close();
  }
}
