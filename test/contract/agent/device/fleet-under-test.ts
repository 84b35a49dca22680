/** A server with TLS in this process, and one device of some kind, for the contract suite of devices. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { readCurrent } from "../../../../agent/current/read-current.js";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { startServer } from "../../../../server/main.js";
import { restoreHome } from "../../../../server/operations/stores/restore.js";
import { openAuthority } from "../../../../server/access/identity/authority.js";
import { nodeRandom, silentLog } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { publicKeyInfo } from "../../../../shared/trust/certificates/connection-key.js";
import { loadKey } from "../../../../shared/trust/keys.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import { sourceOfTensor, tensorOfSource } from "../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../helpers/agent-fixtures.js";
import { layoutVectorPath } from "../../../helpers/layout-vector.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";
import { makeDeviceCertificate, type TestAuthority } from "../../../helpers/test-pki.js";
import { startTestServer, tensorBytes, testFleet, type TestServer } from "../../../helpers/test-server.js";
import type { DeviceKind, RunningDevice } from "./device-port.js";

export const line = "pack";
export const device = "v1";
const name = { fleet: testFleet, device };
/** Bytes of the large tensor: 48 blocks. */
const largeBytes = 12 * 2 ** 20;

type Tensors = Readonly<Record<string, Buffer>>;

export class FleetUnderTest {
  readonly home: string;
  #running: RunningDevice | undefined;
  readonly #addresses: { readonly mqttUrl: string; readonly httpUrl: string };

  private constructor(
    readonly server: TestServer,
    private readonly kind: DeviceKind,
    private readonly folder: string,
  ) {
    this.home = join(folder, "device");
    this.#addresses = server.handle;
  }

  static async start(t: TestContext, kind: DeviceKind): Promise<FleetUnderTest> {
    const folder = await mkdtemp(join(tmpdir(), "stemma-device-"));
    const server = await startTestServer({ tls: "own" });
    const fleet = new FleetUnderTest(server, kind, folder);
    t.after(async () => {
      await fleet.#running?.kill();
      await server.remove();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    });
    return fleet;
  }

  get operations(): ServerOperations {
    return this.server.handle.operations;
  }

  /** Starts the server again at the same addresses, which devices keep. */
  async restartServer(): Promise<void> {
    await this.server.restart(this.#ports());
  }

  /** Makes a backup; returns what starts the server again from it, at the same addresses. */
  async backup(): Promise<() => Promise<void>> {
    const backup = join(this.folder, "backup");
    await this.operations.backup({ fleet: testFleet, folder: backup, plainKey: true });
    return async () => {
      const home = join(this.folder, "restored");
      await this.server.handle.close();
      await restoreHome(backup, home);
      this.server.handle = await startServer(
        { ...this.#ports(), home, fleets: [testFleet], tls: "own" },
        silentLog(),
      );
    };
  }

  #ports(): { readonly mqttPort: number; readonly httpPort: number } {
    const portOf = (url: string): number => Number(new URL(url).port);
    return { mqttPort: portOf(this.#addresses.mqttUrl), httpPort: portOf(this.#addresses.httpUrl) };
  }

  /** Waits until the server gives the bits of this file for a version. */
  async isRecovered(versionId: string, file: string): Promise<void> {
    await pollUntil(`${versionId} is stored`, () =>
      this.operations.verify({ fleet: testFleet, model: versionId }).then(
        () => true,
        () => false,
      ),
    );
    assert.deepEqual(await this.recovered(versionId), await tensorsIn(file));
  }

  /** Writes a model whose tensors follow from a seed, and returns its file. */
  async model(seed: number, { large = false, bias = seed } = {}): Promise<string> {
    const tensor = (byteLength: number, of: number) =>
      sourceOfTensor({ dtype: "U8", shape: [byteLength], bytes: noiseBytes(byteLength, of) });
    const tensors = [
      { name: "weights", source: tensor(large ? largeBytes : 1000, seed) },
      { name: "bias", source: tensor(17, 100 + bias) },
    ];
    const file = join(this.folder, `${seed}-${bias}.safetensors`);
    await writeFile(file, await collectBytes(safetensorsChunks(tensors)));
    return file;
  }

  async import(model: string, file: string): Promise<string> {
    const bytes = await readFile(file);
    const chunks = (async function* () {
      yield await Promise.resolve(bytes);
    })();
    await this.operations.import({ byteLength: bytes.length, chunks }, { fleet: testFleet, name: model });
    return (await this.operations.model({ fleet: testFleet, model })).versionId;
  }

  /** Imports a model of PyTorch of test/vectors/layouts with its architecture and its layout. */
  async importLaidOut(model: string): Promise<string> {
    const [file, arch] = [`${model}.pt`, `${model}.json`].map(layoutVectorPath) as [string, string];
    const args = ["model", "import", file, "--name", model, "--arch", arch, "--layout", "pytorch"];
    const { home } = this.server;
    const { status, stderr } = await runStemmaHere([...args, "--fleet", testFleet], { home });
    assert.equal(status, 0, stderr);
    return (await this.operations.model({ fleet: testFleet, model })).versionId;
  }

  /** Writes what the line runs with the first number of each tensor changed. @returns its file */
  async trained(): Promise<string> {
    const file = join(this.folder, "trained.safetensors");
    const bytes = await (await readCurrent(this.home, line)).read("model.safetensors");
    const { tensors } = await readSafetensors(fileOfBytes(bytes), "what it runs");
    const data = bytes.subarray(8 + Number(Buffer.from(bytes).readBigUInt64LE()));
    for (const { begin } of tensors) data[begin] = (data[begin] ?? 0) ^ 1;
    await writeFile(file, bytes);
    return file;
  }

  /** Writes an invitation of the device. @param initial the model that its line starts from */
  async invite(initial?: string, authority?: string): Promise<string> {
    const terms = {
      lines: [line],
      force: true,
      ...(initial === undefined ? {} : { initial: { [line]: initial } }),
      ...(authority === undefined ? {} : { authority }),
    };
    const file = join(this.folder, "invitation.json");
    await writeFile(file, JSON.stringify(await this.operations.invite({ ...name, ...terms })));
    return file;
  }

  enrol(invitation: string, home = this.home): Promise<void> {
    return this.kind.enrol(home, invitation);
  }

  /** Enrols the device with a certificate of this authority. @returns what gives it another one */
  async enrolOwned(root: TestAuthority, initial: string): Promise<() => Promise<string>> {
    const owned = { file: join(this.folder, "owned.crt"), key: join(this.folder, "owned.key") };
    const certify = async (): Promise<string> => {
      const { certificate, key, serial } = await makeDeviceCertificate(root, device);
      await writeFile(owned.key, key);
      await writeFile(owned.file, certificate);
      return serial;
    };
    await certify();
    await this.operations.addAuthority({
      fleet: testFleet,
      authority: "oem",
      certificates: root.certificate,
    });
    const invitation = await this.invite(initial, "oem");
    await assert.rejects(this.enrol(invitation), { code: "ENROLMENT_INVALID" });
    await this.kind.enrol(this.home, invitation, owned);
    return certify;
  }

  /** Gives the enrolled device a certificate with another end, issued a day before. */
  async withCertificateUntil(notAfterMs: number, { hasHttps = true } = {}): Promise<void> {
    const { serial } = (await this.certificates()).at(-1) ?? assert.fail("it has no certificate");
    const { generation } = await this.operations.device(name);
    const key = await loadKey(nodeFiles(), join(this.server.home, "server-key.json"));
    const authority = await openAuthority(key, nodeRandom());
    await this.kind.replaceCertificate(this.home, {
      hasHttps,
      issuedAtMs: Date.now() - 86_400_000,
      issue: async (connectionKey) => {
        const when = { serial, notAfterMs };
        const subject = { ...name, generation };
        return (await authority.issueForDevice(subject, publicKeyInfo(connectionKey), when)).certificate;
      },
    });
  }

  async certificates(): Promise<readonly { readonly serial: string }[]> {
    return (await this.operations.device(name)).certificates ?? [];
  }

  isOnline(): Promise<unknown> {
    return pollUntil("the device is connected", async () => (await this.operations.device(name)).online);
  }

  /** Starts the device; the one that ran has ended before. */
  async startDevice(): Promise<RunningDevice> {
    this.#running = await this.kind.start(this.home);
    return this.#running;
  }

  /** Enrols and starts the device with a first model, and waits until it runs that and the server knows. */
  async deviceWith(model: string, file: string): Promise<{ device: RunningDevice; base: string }> {
    const base = await this.import(model, file);
    await this.enrol(await this.invite(model));
    const running = await this.startDevice();
    await this.runs(base);
    await this.isKnownToRun(base);
    return { device: running, base };
  }

  assign(model: string): Promise<unknown> {
    return this.operations.assign({ ...name, line, model });
  }

  /** The version that the line runs. */
  async active(): Promise<string | undefined> {
    const current = await readCurrent(this.home, line).catch(() => undefined);
    return current?.manifest.versionId;
  }

  runs(versionId: string): Promise<unknown> {
    return pollUntil(`the device runs ${versionId}`, async () => (await this.active()) === versionId);
  }

  isKnownToRun(versionId: string): Promise<unknown> {
    return pollUntil(`the server knows that ${versionId} runs`, async () => {
      const { active } = await this.operations.device(name);
      return active[line]?.versionId === versionId;
    });
  }

  /** The tensors that the device's software reads. */
  async current(file = "model.safetensors"): Promise<Tensors> {
    return readTensors(await (await readCurrent(this.home, line)).read(file));
  }

  /** Compares what the device's software reads beside the tensors with the version's record. */
  async describesWhatItRuns(): Promise<void> {
    const current = await readCurrent(this.home, line);
    const { manifest } = current;
    const { record } = await this.operations.model({ fleet: testFleet, model: manifest.versionId });
    assert.deepEqual(
      [manifest.name, manifest.contentId, manifest.root],
      [record.name, record.contentId, record.root],
    );
    const architecture = await current.read("architecture.json");
    assert.equal(objectId("architecture", architecture), record.objects.architecture);
    const names = JSON.parse(Buffer.from(await current.read("names.json")).toString()) as Record<
      string,
      string
    >;
    assert.deepEqual(Object.keys(names).sort(), Object.keys(await this.current()).sort());
  }

  /** @param layout that of the file which the model came from */
  recovered(versionId: string, layout?: "original"): Promise<Tensors> {
    return tensorBytes(this.operations, versionId, testFleet, layout);
  }

  async stands(versionId: string, standing: string): Promise<void> {
    await pollUntil(
      `${versionId} is ${standing}`,
      async () => (await this.#running?.standing(versionId)) === standing,
    );
  }

  async reports(problem: RegExp): Promise<void> {
    const device = this.#running;
    await pollUntil(`the device reports ${String(problem)}`, async () =>
      (await device?.problems())?.some((text) => problem.test(text)),
    );
  }
}

export async function tensorsIn(file: string): Promise<Tensors> {
  return readTensors(await readFile(file));
}

async function readTensors(bytes: Uint8Array): Promise<Tensors> {
  const file = await readSafetensors(fileOfBytes(bytes), "a model");
  const read = file.tensors.map(
    async (entry) => [entry.name, Buffer.from((await tensorOfSource(file.source(entry))).bytes)] as const,
  );
  return Object.fromEntries(await Promise.all(read));
}
