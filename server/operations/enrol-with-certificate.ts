/**
 * The steps that an invitation of one device and that of a batch have in common: whether this server signed it, the
 * certificate that the keys have already, and the first one, with which the device is enrolled and gets its models.
 * /
 */
import { defined } from "../../shared/defined.js";
import type { RequestedIdentity } from "../../shared/trust/certificates/certificate-request.js";
import type { Invitation } from "../../shared/trust/certificates/invitation.js";
import type { DeviceSubject } from "../../shared/trust/certificates/verify-chain.js";
import type { OperationsContext } from "../services/context/operations-context.js";
import type { IssuedCertificate } from "../access/identity/authority.js";
import { keysBefore, overlapOf } from "../access/identity/key-changes.js";
import type { DeviceSummary } from "../storage/repository/answers/device-answers.js";
import type { FleetRepository } from "../storage/repository/fleet-repository.js";
import { refuseOpenClaims } from "./models/open-claims.js";
import type { CertificateSource } from "./devices/owned-certificates.js";

export interface CertificateEnrolment {
  readonly terms: Pick<Invitation, "fleet" | "device" | "generation" | "profile" | "lines" | "initial"> & {
    /** The batch whose invitation it was. */
    readonly batch?: string;
  };
  readonly asked: RequestedIdentity;
  readonly source: CertificateSource;
  readonly atMs: number;
}

/**
 * Issues a device's first certificate of a generation, or takes the one that it has, and records the enrolment.
 * @throws CLAIMS_OPEN, NAME_INVALID where the broker could not tell it from a device of another fleet
 */
export function enrolWithCertificate(
  context: OperationsContext,
  repository: FleetRepository,
  enrolment: CertificateEnrolment,
): Promise<IssuedCertificate> {
  const enrol = (): Promise<IssuedCertificate> => issueAndEnrol(context, repository, enrolment);
  return context.live?.namesAtBroker?.claim(enrolment.terms, enrol) ?? enrol();
}

async function issueAndEnrol(
  context: OperationsContext,
  repository: FleetRepository,
  { terms, asked, source, atMs }: CertificateEnrolment,
): Promise<IssuedCertificate> {
  const { fleet, device, generation, profile, lines, batch } = terms;
  await refuseOpenClaims(context, repository, { device, evenIfClaimed: false });
  const issued = await source(terms, { atMs });
  const { certificate: _, ...members } = issued;
  await repository.append({
    type: "enrolled",
    atMs,
    device,
    generation,
    publicKey: asked.devicePublicKey,
    tokenHash: "",
    profile,
    lines,
    certificate: { ...members, keyHash: asked.keyHash },
    ...defined({ batch }),
  });
  // A connection of the generation before.
  await (await context.live?.fleet(fleet))?.cutOff(device);
  await giveInitial(repository, terms, atMs);
  return issued;
}

/** Returns why an invitation that this key signed is not taken; undefined if it is a good one of this server. */
export function whyNotOfServer(
  { signer, keyChanges, ports }: OperationsContext["home"],
  serverPublicKey: string,
): string | undefined {
  if (serverPublicKey === signer.publicKey) return undefined;
  if (serverPublicKey === overlapOf(keyChanges, ports.clock.now())?.change.from) return undefined;
  return keysBefore(keyChanges).includes(serverPublicKey)
    ? "its invitation is signed by a key that this server has replaced. Invite it again"
    : "its invitation is of another server";
}

/** The certificate that this enrolment's keys have already. */
export function certificateOf(
  known: DeviceSummary | undefined,
  { generation }: DeviceSubject,
  { keyHash, devicePublicKey }: RequestedIdentity,
): { readonly serial: string; readonly notAfterMs: number } | undefined {
  const isKept = known?.state === "enrolled" || known?.waits === true;
  if (!isKept || known.generation !== generation || known.publicKey !== devicePublicKey) return undefined;
  return known.certificates?.find((each) => each.keyHash === keyHash);
}

/** Gives each line the model that its invitation names, where none was given yet. */
export async function giveInitial(
  repository: FleetRepository,
  { device, initial = {} }: Pick<Invitation, "device" | "initial">,
  atMs: number,
): Promise<void> {
  const assigned = repository.device(device)?.assigned ?? {};
  const missing = Object.entries(initial).filter(([line]) => assigned[line] === undefined);
  if (missing.length > 0)
    await repository.append(
      ...missing.map(([line, versionId]) => ({
        type: "assigned" as const,
        atMs,
        device,
        line,
        versionId: repository.resolve(versionId).versionId,
      })),
    );
}
