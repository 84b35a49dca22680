/**
 * A device enrols with an invitation and renews, and its disk or the server's crashes at every moment. Whatever the
 * crash left, the same commands with the same invitation end with an enrolment, and the server knows one device by the
 * keys that it has.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { renewalExchange } from "../../../agent/identity/exchanges.js";
import { requestEnrolment, takeEnrolment } from "../../../agent/identity/enrol-invited.js";
import { openFleets } from "../../../server/services/context/open-fleets.js";
import type { OperationsContext } from "../../../server/services/context/operations-context.js";
import { openAuthority } from "../../../server/access/identity/authority.js";
import { certify, invite } from "../../../server/operations/devices/certificates.js";
import { openHome } from "../../../server/storage/repository/home.js";
import { nodeRandom, silentLog } from "../../../shared/adapters/node-ports.js";
import type { Files } from "../../../shared/ports.js";
import {
  parseAnswer,
  type CertificateRequest,
} from "../../../shared/trust/certificates/certificate-exchange.js";
import { readRequest } from "../../../shared/trust/certificates/certificate-request.js";
import { connectionKeyHash, publicKeyInfo } from "../../../shared/trust/certificates/connection-key.js";
import type { Invitation } from "../../../shared/trust/certificates/invitation.js";
import { loadEnrolment, type Enrolment } from "../../../shared/trust/enrolment.js";
import { checkCrashStates, crashStateCount } from "../../helpers/crash-states.js";
import { memoryFiles } from "../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../helpers/manual-clock.js";

/** What the device had done when it crashed: its request for a certificate, or for a newer one, reached the server. */
type Mark = "asked" | "enrolled" | "renewing";

const fleet = "cars";
const device = "van-1";
const path = "/agent/enrolment.json";
/** Longer than a device has to wait between two renewals. */
const renewalMs = 3_600_000;

interface Served {
  readonly context: OperationsContext;
  readonly clock: ReturnType<typeof manualClock>;
  close(): Promise<void>;
}

/** A server on these files, without ports: requests come as files. */
async function serve(files: Files, seed: string, atMs: number): Promise<Served> {
  const clock = manualClock(atMs);
  const random = seededRandom(seed);
  const home = await openHome("/home", { files, clock, random, environment: { backend: "none" } });
  const fleets = openFleets(home, () => Promise.reject(new Error("nothing is dropped here")));
  const plannedEnrolment = async (): ReturnType<NonNullable<OperationsContext["plannedEnrolment"]>> => ({
    mqtt: ["mqtts://server.example:1883"],
    http: "https://server.example:8083",
    ca: undefined,
    authorities: [(await openAuthority(home.signer, random)).certificate],
    root: "stemma",
    takesTokens: false,
  });
  return {
    context: { home, fleets, version: "test", plannedEnrolment },
    clock,
    close: async () => {
      await fleets.close();
      await home.close();
    },
  };
}

const beganMs = 1_790_000_000_000;

/** What `stemma agent enroll` does, whatever an earlier attempt has left. */
async function enrol(
  files: Files,
  send: (request: CertificateRequest) => ReturnType<typeof certify>,
  invitation: Invitation,
): Promise<Enrolment> {
  const parts = { files, random: nodeRandom(), path };
  const present = await loadEnrolment(files, path).catch(() => undefined);
  if (present !== undefined) return present;
  const request = await requestEnrolment(parts, invitation);
  return takeEnrolment(parts, invitation, await send(request));
}

/** Whether the keys of this request are on the disk: waiting for its answer, or in the enrolment. */
async function isOnDisk(files: Files, { request, invitation }: CertificateRequest): Promise<boolean> {
  for (const waiting of [`${path}.keys`, `${path}.renewal`])
    if ((await files.stat(waiting)) !== undefined && Buffer.from(await files.read(waiting)).includes(request))
      return true;
  const enrolment = await loadEnrolment(files, path).catch(() => undefined);
  if (enrolment?.identity === undefined) return false;
  const asked = await readRequest(request, enrolment);
  // A renewal has replaced the first certificate's key, and not the device's.
  if (invitation !== undefined) return asked.devicePublicKey === enrolment.devicePublicKey;
  return asked.keyHash === connectionKeyHash(publicKeyInfo(enrolment.identity.key));
}

function renewalOn(files: Files): ReturnType<typeof renewalExchange> {
  return renewalExchange({ files, path, clock: { monotonic: () => 0 }, log: silentLog() });
}

/** The server knows the device once, by this key. */
async function agree(server: Served, publicKey: string): Promise<void> {
  const repository = await server.context.fleets.get(fleet);
  const known = repository.device(device);
  assert.deepEqual([known?.state, known?.generation, known?.publicKey], ["enrolled", 1, publicKey]);
  let enrolled = 0;
  for await (const { fact } of repository.journal.entries()) if (fact.type === "enrolled") enrolled++;
  assert.equal(enrolled, 1);
}

test("a crash of the device at any moment leaves what the same command completes", async () => {
  let invitation: Invitation | undefined;
  /** What the run, and the checks of one state, asked the server for. */
  const asked: CertificateRequest[] = [];
  const askedInChecks = new WeakMap<readonly Mark[], CertificateRequest[]>();
  /**
   * The server as it was at the crash: one with the same seed that gets the same is the same server. What is not on the
   * device's disk was not asked for, since the keys are durable before they are used.
   */
  const serverAt = async (files: Files, marks: readonly Mark[]): Promise<Served> => {
    const server = await serve(memoryFiles(), "server", beganMs);
    const reached = asked.filter((_, index) => marks.includes(index === 0 ? "asked" : "renewing"));
    for (const request of askedInChecks.get(marks) ?? [])
      if (await isOnDisk(files, request)) reached.push(request);
    for (const request of reached) {
      await certify(server.context, request);
      server.clock.advance(renewalMs);
    }
    return server;
  };
  await checkCrashStates<Mark>({
    name: "enrolment",
    run: async (files, mark) => {
      const server = await serve(memoryFiles(), "server", beganMs);
      invitation = await invite(server.context, { fleet, device, lines: ["soh"] });
      const parts = { files, random: seededRandom("agent"), path };
      asked[0] = await requestEnrolment(parts, invitation);
      mark("asked");
      await takeEnrolment(parts, invitation, await certify(server.context, asked[0]));
      mark("enrolled");
      server.clock.advance(renewalMs);
      const exchange = await renewalOn(files);
      asked[1] = await exchange.request();
      mark("renewing");
      await exchange.take(await certify(server.context, asked[1]));
      await server.close();
    },
    check: async (files, marks) => {
      assert.ok(invitation !== undefined && asked[0] !== undefined);
      const server = await serverAt(files, marks);
      const sent = askedInChecks.get(marks) ?? [];
      askedInChecks.set(marks, sent);
      const send = async (request: CertificateRequest): ReturnType<typeof certify> => {
        sent.push(request);
        return certify(server.context, request);
      };
      const enrolment = await enrol(files, send, invitation);
      if (marks.includes("asked")) {
        const { devicePublicKey } = await readRequest(asked[0].request, invitation);
        assert.equal(
          enrolment.devicePublicKey,
          devicePublicKey,
          "the keys that asked are those that are kept",
        );
      }
      server.clock.advance(renewalMs);
      const exchange = await renewalOn(files);
      const renewed = await exchange.take(await send(await exchange.request()));
      await agree(server, renewed.devicePublicKey);
      await server.close();
    },
    states: Math.ceil(crashStateCount() / 12),
  });
});

test("a crash of the server at any moment gives the same keys one certificate when they ask again", async () => {
  let invitation: Invitation | undefined;
  let request: CertificateRequest | undefined;
  await checkCrashStates<"answered">({
    name: "enrolment at the server",
    run: async (files, mark) => {
      const server = await serve(files, "server", beganMs);
      invitation = await invite(server.context, { fleet, device, lines: ["soh"] });
      const parts = { files: memoryFiles(), random: seededRandom("agent"), path };
      request = await requestEnrolment(parts, invitation);
      await certify(server.context, request);
      mark("answered");
      await server.close();
    },
    check: async (files, marks) => {
      assert.ok(invitation !== undefined && request !== undefined);
      const server = await serve(files, `again-${marks.length}`, beganMs);
      try {
        // Before its key was durable, the server was another one, and nobody had heard of it.
        if (server.context.home.signer.publicKey !== invitation.serverPublicKey)
          return assert.deepEqual(marks, []);
        parseAnswer(await certify(server.context, request), invitation.serverPublicKey, request.request);
        await agree(server, (await readRequest(request.request, invitation)).devicePublicKey);
        const { certificates } = (await server.context.fleets.get(fleet)).device(device) ?? {};
        assert.equal(certificates?.length, 1);
      } finally {
        await server.close();
      }
    },
    states: Math.ceil(crashStateCount() / 12),
  });
});
