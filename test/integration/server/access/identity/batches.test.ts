// Devices that enrol with one invitation for many, at a real server over TLS: its bounds, and what a thief of it gets.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { invitedExchange, type CertificateExchange } from "../../../../../agent/identity/exchanges.js";
import type { CallOutput, OperationInput } from "../../../../../server/interface/api/server-operations.js";
import { nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { loadEnrolment, type Enrolment } from "../../../../../shared/trust/enrolment.js";
import type { CertificateRequest } from "../../../../../shared/trust/certificates/certificate-exchange.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

const files = nodeFiles();
const random = nodeRandom();
const refused = { code: "CERTIFICATE_REFUSED" };
const fleet = testFleet;
const hourMs = 3_600_000;

describe("batches of devices", () => {
  let server: TestServer;
  let folder: string;
  let homes = 0;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-batches-"));
    server = await startTestServer({ tls: "own" });
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  const operations = () => server.handle.operations;

  /** The file of a new batch. */
  async function create(batch: string, more: Partial<OperationInput<"createBatch">> = {}): Promise<string> {
    const made = await operations().createBatch({
      ...{ fleet, batch, count: 2, validMs: hourMs, lines: ["line"] },
      ...more,
    });
    const path = join(folder, `${batch}.batch.json`);
    await writeFile(path, JSON.stringify(made));
    return path;
  }
  interface Asked {
    readonly exchange: CertificateExchange;
    readonly request: CertificateRequest;
    readonly path: string;
  }
  /** A machine of its own that asks for a name. */
  async function ask(file: string, device: string): Promise<Asked> {
    const path = join(folder, `home-${homes++}.json`);
    const exchange = await invitedExchange({ files, random, path }, file, device);
    return { exchange, request: await exchange.request(), path };
  }
  async function enrol(file: string, device: string): Promise<Enrolment> {
    const { exchange, request } = await ask(file, device);
    return exchange.take(await exchange.send(request));
  }
  const shown = async (batch: string): Promise<CallOutput<"batches">[number]> =>
    (await operations().batches({ fleet })).find((one) => one.batch === batch) ?? assert.fail();
  const device = (name: string) => operations().device({ fleet, device: name });

  it("enrol with keys of their own, each with a fact, labels and model, as many as the batch has", async () => {
    const file = await create("vans", { labels: { depot: "lyon" } });
    const one = await enrol(file, "van-1");
    assert.equal(one.generation, 1);
    assert.deepEqual(one.lines, ["line"]);
    await (await ScriptedDevice.connect(one, { session: 1 })).close();
    const found = await device("van-1");
    assert.deepEqual([found.batch, found.labels, found.waits], ["vans", { depot: "lyon" }, undefined]);
    assert.ok(found.enrolledBy !== undefined);
    await enrol(file, "van-2");
    await assert.rejects(enrol(file, "van-3"), refused);
    const { state, used, devices } = await shown("vans");
    assert.deepEqual([state, used, devices], ["used up", 2, ["van-1", "van-2"]]);
    await assert.rejects(create("vans"), { code: "NAME_INVALID" });
  });

  it("ask again after a lost answer, and get the same certificate, which counts once", async () => {
    const { exchange, request, path } = await ask(await create("lost", { count: 1 }), "lost-1");
    await exchange.send(request);
    const again = await invitedExchange({ files, random, path }, join(folder, "lost.batch.json"), "lost-1");
    assert.equal((await again.request()).request, request.request);
    const enrolment = await again.take(await again.send(await again.request()));
    assert.deepEqual(await loadEnrolment(files, path), enrolment);
    await (await ScriptedDevice.connect(enrolment, { session: 1 })).close();
    assert.equal((await shown("lost")).used, 1);
    // Enrolled: the same home does not enrol a second time.
    await assert.rejects(again.request(), { code: "ENROLMENT_INVALID" });
  });

  it("cannot pass the bound by asking at once, nor two of them get one name", async () => {
    const file = await create("rush", { count: 3 });
    const asked = await Promise.all(
      Array.from({ length: 8 }, (_, index) => ask(file, index < 2 ? "rush-0" : `rush-${index}`)),
    );
    const answers = await Promise.allSettled(asked.map(({ exchange, request }) => exchange.send(request)));
    const given = answers.filter(({ status }) => status === "fulfilled").length;
    const { used, devices } = await shown("rush");
    assert.ok(given <= 3 && used === given, `${given} certificates, ${used} counted`);
    assert.equal(new Set(devices).size, used);
    for (const answer of answers)
      if (answer.status === "rejected")
        assert.ok(["CERTIFICATE_REFUSED", "FACT_INVALID"].includes((answer.reason as { code: string }).code));
  });

  it("take no name that is taken, that the batch does not have, or that a person took away", async () => {
    const file = await create("names", {
      count: 9,
      namePattern: "bus-?",
      names: ["bus-1", "bus-2", "bus-33"],
    });
    for (const name of ["van-1", "bus-3", "bus-33"]) await assert.rejects(enrol(file, name), refused, name);
    await enrol(file, "bus-1");
    await assert.rejects(enrol(file, "bus-1"), refused);
    await assert.rejects(create("any", { mayReplace: true }), { code: "USAGE" });
    const replacing = await create("again", { count: 9, namePattern: "bus-*", mayReplace: true });
    const second = await enrol(replacing, "bus-1");
    assert.equal(second.generation, 2);
    await operations().revoke({ fleet, device: "bus-1", because: "stolen" });
    await assert.rejects(enrol(replacing, "bus-1"), refused, "a revoked device does not come back by itself");
    assert.equal((await shown("again")).used, 1);
  });

  it("wait until a person accepts them, where the batch says so", async () => {
    const file = await create("held", { count: 3, hold: true });
    const enrolments = [await enrol(file, "held-1"), await enrol(file, "held-2")];
    const waiting = await device("held-1");
    assert.deepEqual([waiting.state, waiting.waits], ["quarantined", true]);
    assert.match(waiting.quarantined?.because ?? "", /until a person accepts it/);
    const connect = async (enrolment: Enrolment): Promise<void> =>
      (await ScriptedDevice.connect(enrolment, { session: 1 })).close();
    await assert.rejects(connect(enrolments[0] as Enrolment), { code: 5 });
    const accept = (input: Omit<OperationInput<"acceptDevices">, "fleet">) =>
      operations().acceptDevices({ fleet, ...input });
    await assert.rejects(accept({ devices: ["van-1"] }), { code: "NOT_ALLOWED" });
    await assert.rejects(accept({ devices: ["nobody"] }), { code: "DEVICE_UNKNOWN" });
    assert.deepEqual(await accept({ batch: "held", dryRun: true }), { accepted: ["held-1", "held-2"] });
    assert.deepEqual(await accept({ devices: ["held-1"] }), { accepted: ["held-1"] });
    await connect(enrolments[0] as Enrolment);
    assert.deepEqual((await shown("held")).waiting, ["held-2"]);
    await accept({ batch: "held" });
    await connect(enrolments[1] as Enrolment);
  });

  it("end with the batch's time or revocation; those that enrolled stay", async () => {
    const file = await create("short", { count: 9 });
    const stays = await enrol(file, "short-1");
    await operations().revokeBatch({ fleet, batch: "short", because: "the image was published" });
    await assert.rejects(enrol(file, "short-2"), refused);
    await assert.rejects(operations().revokeBatch({ fleet, batch: "short" }), { code: "NOT_ALLOWED" });
    await (await ScriptedDevice.connect(stays, { session: 1 })).close();
    const { state, revoked } = await shown("short");
    assert.deepEqual([state, revoked?.because], ["revoked", "the image was published"]);
  });

  it("are bounded by address: who asks too often is refused, and the server answers others", async (t) => {
    const own = await startTestServer({
      tls: "own",
      httpLimits: { certificateRequestsPerMinute: 3 },
    });
    t.after(() => own.remove());
    const made = await own.handle.operations.createBatch({
      ...{ fleet, batch: "flood", count: 9, validMs: hourMs, lines: ["line"] },
    });
    const file = join(folder, "flood.batch.json");
    await writeFile(file, JSON.stringify(made));
    for (const name of ["f-1", "f-2", "f-3"]) await enrol(file, name);
    await assert.rejects(enrol(file, "f-4"), { code: "QUOTA_EXCEEDED" });
    assert.equal((await own.handle.operations.batches({ fleet }))[0]?.used, 3);
  });

  it("are asked for by the file's holder alone: a request that was read enrols no other device", async () => {
    const { exchange, request } = await ask(await create("seen", { count: 9 }), "seen-1");
    const other = await ask(join(folder, "seen.batch.json"), "seen-2");
    assert.ok(request.batch !== undefined && other.request.batch !== undefined);
    const send = (batch: NonNullable<CertificateRequest["batch"]>, of = request) =>
      exchange.send({ ...of, batch });
    await assert.rejects(send({ ...request.batch, device: "thief" }), refused);
    await assert.rejects(send(request.batch, other.request), refused);
    for (const changed of [{ lines: ["other"] }, { batch: "vans" }, { expiresAtMs: 9e12 }])
      await assert.rejects(send({ ...request.batch, terms: { ...request.batch.terms, ...changed } }), {
        code: "ENROLMENT_INVALID",
      });
    assert.equal("seed" in request.batch.terms, false);
    assert.equal((await shown("seen")).used, 0);
    await exchange.send(request);
  });
});
