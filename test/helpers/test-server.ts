/** A complete server in this process on its own temporary home, for integration tests. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog } from "../../shared/adapters/node-ports.js";
import type { ServerOptions } from "../../server/operations/configuration/config.js";
import { startServer, type ServerHandle } from "../../server/main.js";
import type { ServerOperations } from "../../server/interface/api/server-operations.js";
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource } from "../../shared/tensor/tensor.js";
import { parseEnrolment, sealEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";

export const testFleet = "test-fleet";

export interface TestServer {
  readonly home: string;
  handle: ServerHandle;
  enroll(
    device: string,
    lines?: readonly string[],
    initial?: Readonly<Record<string, string>>,
  ): Promise<Enrolment>;
  /** The enrolment with the current address of the server. */
  withCurrentAddress(enrolment: Enrolment): Enrolment;
  /** Restarts the server on the same home. */
  restart(options?: Partial<ServerOptions>): Promise<void>;
  /** Closes the server and removes its home. */
  remove(): Promise<void>;
}

/** With plain ports and tokens, which are cheap, unless the options say otherwise. */
export async function startTestServer(options: Partial<ServerOptions> = {}): Promise<TestServer> {
  const home = options.home ?? (await mkdtemp(join(tmpdir(), "stemma-server-")));
  const start = (more: Partial<ServerOptions> = {}): Promise<ServerHandle> =>
    startServer(
      { fleets: [testFleet], mqttPort: 0, httpPort: 0, tls: "none", ...options, ...more, home },
      silentLog(),
    );
  const server: TestServer = {
    home,
    handle: await start(),
    async enroll(device, lines = ["line"], initial = {}) {
      return parseEnrolment(
        await server.handle.operations.enroll({
          fleet: testFleet,
          device,
          lines,
          profile: "generic",
          initial,
          // The lines of these tests have models of many shapes.
          force: true,
        }),
      );
    },
    withCurrentAddress: (enrolment) => sealEnrolment({ ...enrolment, mqtt: [server.handle.mqttUrl] }),
    async restart(more) {
      await server.handle.close();
      server.handle = await start(more);
    },
    async remove() {
      await server.handle.close();
      await rm(home, { recursive: true, force: true });
    },
  };
  return server;
}

/** The tensors of a recovered version by name; waits for the report, which confirms their hashes. */
export async function tensorBytes(
  operations: ServerOperations,
  model: string,
  fleet = testFleet,
  layout?: "original",
): Promise<Record<string, Buffer>> {
  const stream = await operations.recover({ fleet, model, ...(layout === undefined ? {} : { layout }) });
  const pieces: Uint8Array[] = [];
  for await (const chunk of stream.chunks) pieces.push(Buffer.from(chunk));
  await stream.report;
  const file = await readSafetensors(fileOfBytes(Buffer.concat(pieces)), model);
  return Object.fromEntries(
    await Promise.all(
      file.tensors.map(
        async (entry) => [entry.name, Buffer.from((await tensorOfSource(file.source(entry))).bytes)] as const,
      ),
    ),
  );
}
