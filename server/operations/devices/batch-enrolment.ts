/**
 * Batches: one invitation for many devices, within bounds that the journal keeps. Enrolment takes the way of an
 * invitation; what differs is who chooses the name, and that the fact counts against the batch.
 */
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import { nameOneOf } from "../../../shared/missing-errors.js";
import {
  checkBatchTerms,
  generationOfBatch,
  isBatchUse,
  signBatchTerms,
  type BatchInvitation,
  type BatchUse,
} from "../../../shared/trust/certificates/batch-invitation.js";
import { readRequest } from "../../../shared/trust/certificates/certificate-request.js";
import { byOf } from "../../../shared/journal/caller.js";
import { generateKey } from "../../../shared/trust/keys.js";
import type { CallOutput, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { IssuedCertificate } from "../../access/identity/authority.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { batchRefused, whyNotInBatch, type BatchState } from "../../storage/repository/state/batch-state.js";
import type { CertificateRequest } from "../../../shared/trust/certificates/certificate-exchange.js";
import { replacesOnlyNamed, waitsForNothing } from "./device-errors.js";
import { initialModels, checkLines, enrolledReleases, invitationAddresses } from "./enrol-device.js";
import {
  certificateOf,
  enrolWithCertificate,
  giveInitial,
  whyNotOfServer,
} from "../enrol-with-certificate.js";
import { refuseMisspeltLines } from "../../services/context/expected-names.js";
import { checkEnrolmentProfile } from "./enrolment-profile.js";
import { certificateSource } from "./owned-certificates.js";
import { requireDevice } from "./required-device.js";

type BatchOperations = Pick<ServerOperations, "createBatch" | "batches" | "revokeBatch" | "acceptDevices">;

export function batchOperations(context: OperationsContext): BatchOperations {
  const { fleets, home } = context;
  const { clock } = home.ports;
  return {
    createBatch: (input) => createBatch(context, input),
    batches: async ({ fleet }) => {
      const repository = await fleets.get(fleet);
      const devices = repository.devices();
      return repository.batches().map((batch) => shownBatch(batch, devices, clock.now()));
    },
    revokeBatch: async ({ fleet, batch, because = "by hand" }) => {
      const repository = await fleets.get(fleet);
      await repository.append({ type: "batch-revoked", atMs: clock.now(), batch, because });
      const revoked = repository.batches().find((one) => one.batch === batch);
      if (revoked === undefined) throw new StemmaError("INTERNAL", `The batch ${batch} is gone.`);
      return shownBatch(revoked, repository.devices(), clock.now());
    },
    acceptDevices: async ({ fleet, devices, batch, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const waiting = waitingDevices(repository, devices, batch);
      if (!dryRun)
        for (const device of waiting)
          await repository.append({ type: "unquarantined", atMs: clock.now(), device, because: "accepted" });
      return { accepted: waiting };
    },
  };
}

/** @throws USAGE, DEVICE_UNKNOWN, NOT_ALLOWED where one of those that are named does not wait */
function waitingDevices(
  repository: FleetRepository,
  named: readonly string[] | undefined,
  batch: string | undefined,
): string[] {
  if ((named === undefined) === (batch === undefined)) throw nameOneOf("devices", "a batch of them");
  if (named === undefined)
    return repository
      .devices()
      .filter((device) => device.waits === true && device.batch === batch)
      .map(({ device }) => device);
  for (const name of named) {
    const { state, waits } = requireDevice(repository, name);
    if (waits !== true) throw waitsForNothing(name, state);
  }
  return [...new Set(named)];
}

function shownBatch(
  { by, publicKey: _, ...batch }: BatchState,
  devices: readonly DeviceSummary[],
  nowMs: number,
): CallOutput<"batches">[number] {
  const { batch: name, revoked, expiresAtMs, used, count } = batch;
  const state =
    revoked !== undefined ? "revoked" : expiresAtMs <= nowMs ? "ended" : used >= count ? "used up" : "open";
  const own = devices.filter((device) => device.batch === name);
  return {
    ...batch,
    ...byOf({ by }),
    lines: [...batch.lines],
    ...(batch.names && { names: [...batch.names] }),
    state,
    devices: own.map(({ device }) => device),
    waiting: own.filter(({ waits }) => waits === true).map(({ device }) => device),
  };
}

/** @throws CONFIG_INVALID where the server has no authority; what an invitation throws */
async function createBatch(
  context: OperationsContext,
  input: OperationInput<"createBatch">,
): Promise<BatchInvitation> {
  const { fleet, batch, lines, profile = "generic", initial = {}, allowReduced = false } = input;
  const { fleets, home } = context;
  const addresses = await invitationAddresses(context, { device: "DEVICE", authority: input.authority });
  checkLines(fleet, lines);
  if (input.mayReplace === true && input.names === undefined && input.namePattern === undefined)
    throw replacesOnlyNamed();
  const { force } = input;
  const repository = await fleets.get(fleet, { create: true, force });
  if (force !== true) refuseMisspeltLines(repository, lines);
  await checkEnrolmentProfile(home.ports.files, profile);
  const subject = { device: batch, lines };
  const given = (await initialModels(repository, subject, { initial, allowReduced, force })).map(
    ({ line, summary }) => [line, summary.versionId] as const,
  );
  const key = generateKey(home.ports.random);
  const atMs = home.ports.clock.now();
  const expiresAtMs = atMs + input.validMs;
  context.live?.requireClock();
  const { names, namePattern, labels, count, hold = false, mayReplace = false, authority } = input;
  await repository.append({
    type: "batch-created",
    atMs,
    batch,
    publicKey: key.publicKey,
    count,
    expiresAtMs,
    profile,
    lines: [...lines],
    ...defined({ namePattern, names: names && [...new Set(names)] }),
    hold,
    mayReplace,
    ...defined({ labels: labels && { ...labels } }),
    ...(given.length === 0 ? {} : { initial: Object.fromEntries(given) }),
    ...defined({ authority }),
  });
  const terms = signBatchTerms(home.signer, {
    kind: "stemma-batch-invitation",
    format: 1,
    fleet,
    batch,
    publicKey: key.publicKey,
    profile,
    lines: [...lines],
    ...addresses,
    serverPublicKey: home.signer.publicKey,
    ...(await enrolledReleases(repository, input.releases)),
    ...defined({ authority }),
    issuedAtMs: atMs,
    expiresAtMs,
  });
  return { kind: "stemma-batch-file", format: 1, terms, seed: key.seed };
}

/** The first certificate of a device with its batch's invitation. @throws CERTIFICATE_REFUSED, ENROLMENT_INVALID */
export async function enrolOfBatch(
  context: OperationsContext,
  { request, owned }: CertificateRequest,
  use: BatchUse,
): Promise<IssuedCertificate & { readonly generation: number }> {
  const { fleets, home, live } = context;
  const { terms, device } = use;
  const { fleet } = terms;
  checkBatchTerms(terms);
  const foreign = whyNotOfServer(home, terms.serverPublicKey);
  if (foreign !== undefined) throw batchRefused(device, foreign);
  if (!isBatchUse(use, request)) throw batchRefused(device, "the key of its batch did not sign this request");
  const opened = await fleets.get(fleet);
  const batch = opened
    .batches()
    .find((one) => one.batch === terms.batch && one.publicKey === terms.publicKey);
  const known = opened.device(device);
  const atMs = home.ports.clock.now();
  const ofOwner = batch?.authority !== undefined;
  const subject = { fleet, device, generation: generationOfBatch };
  const asked = await readRequest(request, subject, { ofOwner });
  const source = await certificateSource(context, opened, {
    device,
    asked,
    owned,
    authority: batch?.authority,
  });
  const by = batch?.by;
  // Caused by who created the batch, not by who carries the request.
  const repository = typeof by === "object" ? opened.as(defined(by)) : opened;
  const initial = batch?.initial;
  if (known !== undefined && known.batch === terms.batch) {
    const { generation } = known;
    const repeated = certificateOf(known, { fleet, device, generation }, asked);
    if (repeated !== undefined) {
      await giveInitial(repository, { device, ...(initial && { initial }) }, atMs);
      return {
        ...(await source({ fleet, device, generation }, repeated)),
        generation,
      };
    }
  }
  const present = known?.removed === undefined ? known : undefined;
  const why = whyNotInBatch(batch, { device, atMs, known: present && { status: present.state } });
  if (why !== undefined) throw batchRefused(device, why);
  if (present?.state === "enrolled" && (await live?.fleet(fleet))?.isOnline(device) === true)
    throw batchRefused(device, "a device of this name is connected now");
  const generation = repository.nextGeneration(device);
  const { profile, lines, batch: name } = terms;
  const enrolled = { fleet, device, generation, profile, lines, batch: name, ...(initial && { initial }) };
  const enrolment = { terms: enrolled, asked, source, atMs };
  return { ...(await enrolWithCertificate(context, repository, enrolment)), generation };
}
