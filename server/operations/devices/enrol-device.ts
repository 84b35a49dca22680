/** Enrols a device with keys that the server makes; what every kind of enrolment checks first. */
import { defined } from "../../../shared/defined.js";
import { noReleases } from "../../../shared/missing-errors.js";
import type { Invitation } from "../../../shared/trust/certificates/invitation.js";
import { sealEnrolment, type Enrolment } from "../../../shared/trust/enrolment.js";
import { generateKey } from "../../../shared/trust/keys.js";
import { generateToken, hashToken } from "../../../shared/trust/token.js";
import { defaultRoot, isName, nameRule } from "../../../shared/wire/topics.js";
import type { CallOutput, OperationInput } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { refuseMisspeltLines } from "../../services/context/expected-names.js";
import { refuseOtherShape } from "../../services/context/expected-shape.js";
import { refuseReduced } from "../../learning/evaluation/reduced-models.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { nameInvalid, versionRetired } from "../../storage/repository/state/state-errors.js";
import {
  cannotJudge,
  enrolledAndConnected,
  givesNoCertificates,
  noLine,
  noSuchLine,
  takesNoTokens,
} from "./device-errors.js";
import { checkEnrolmentProfile } from "./enrolment-profile.js";
import { refuseOpenClaims } from "../models/open-claims.js";

function checkName(what: string, name: string): void {
  if (!isName(name)) throw nameInvalid(what, name, nameRule);
}

/** The versions that the lines of a device or batch start from. @throws what `assignable` throws, SHAPE_DIFFERENT */
export async function initialModels(
  repository: FleetRepository,
  device: Pick<DeviceSummary, "device" | "lines">,
  { initial, allowReduced, force }: Pick<OperationInput<"enroll">, "initial" | "allowReduced" | "force">,
): Promise<readonly { readonly line: string; readonly summary: VersionSummary }[]> {
  const given = Object.entries(initial ?? {}).map(([line, model]) => ({
    line,
    summary: assignable(repository, device, { line, model, allowReduced }),
  }));
  if (force !== true)
    for (const { line, summary } of given) await refuseOtherShape(repository, line, summary);
  return given;
}

/** The version that a line starts from. It must have its tensors, so it must not be retired. */
export function assignable(
  repository: FleetRepository,
  device: Pick<DeviceSummary, "device" | "lines">,
  { line, model, allowReduced }: Omit<OperationInput<"assign">, "fleet" | "device">,
): VersionSummary {
  if (!device.lines.includes(line)) throw noSuchLine(device.device, device.lines, line);
  const summary = repository.resolve(model);
  if (summary.state === "retired") throw versionRetired(summary, "cannot be given to devices");
  refuseReduced(summary, allowReduced);
  return summary;
}

/** Returns the release policy that the device pins: with the root that is published now. */
export async function enrolledReleases(
  repository: FleetRepository,
  policy: OperationInput<"enroll">["releases"],
): Promise<Pick<Enrolment, "releases">> {
  const root = (await repository.releases())?.set.roots.at(-1);
  if (root !== undefined) return { releases: { root, policy: policy ?? "required" } };
  if (policy === undefined || policy === "off") return {};
  throw noReleases(repository.fleet);
}

/** The addresses by which devices reach the server; members that are undefined are left out. */
export async function enrolmentAddresses({
  live,
  plannedEnrolment,
}: OperationsContext): Promise<Omit<CallOutput<"addresses">, "serverPublicKey"> & { mqtt: string[] }> {
  const known = live?.enrolment ?? (await plannedEnrolment?.());
  if (known === undefined) return { mqtt: ["mqtt://127.0.0.1:1883"], root: defaultRoot };
  const http = known.http ?? live?.httpUrl();
  return {
    mqtt: [...known.mqtt],
    ...defined({ http, ca: known.ca, authorities: known.authorities && [...known.authorities] }),
    root: known.root,
  };
}

/**
 * The addresses in an invitation, with the authorities of this server.
 * @param asked.device the device, as the error names it
 * @param asked.authority the owner's, whose certificate the device has to have
 * @throws CONFIG_INVALID where this server gives no certificates, or cannot judge those of the owner
 */
export async function invitationAddresses(
  context: OperationsContext,
  { device, authority }: { readonly device: string; readonly authority: string | undefined },
): Promise<Pick<Invitation, "mqtt" | "http" | "ca" | "root" | "authorities">> {
  const { authorities, ...addresses } = await enrolmentAddresses(context);
  if (authorities === undefined) throw givesNoCertificates(device);
  // Only devices at an external broker judge a certificate by another authority.
  if (authority !== undefined && addresses.ca !== undefined) throw cannotJudge(authority);
  return { ...addresses, authorities: [...authorities] };
}

/** @throws NAME_INVALID, ENROLMENT_INVALID */
export function checkLines(fleet: string, lines: readonly string[]): void {
  checkName("fleet", fleet);
  if (lines.length === 0) throw noLine();
  for (const line of lines) checkName("line", line);
}

/** @throws NAME_INVALID, NAME_UNLIKELY, ENROLMENT_INVALID also for a device that is enrolled and connected now */
export async function checkEnrolment(
  { fleets, live }: OperationsContext,
  { fleet, device, lines, force }: Pick<OperationInput<"enroll">, "fleet" | "device" | "lines" | "force">,
): Promise<FleetRepository> {
  checkName("device", device);
  checkLines(fleet, lines);
  const repository = await fleets.get(fleet, { create: true, force });
  const known = repository.device(device);
  if (force !== true) refuseMisspeltLines(repository, lines);
  if (known?.state === "enrolled" && live !== undefined && (await live.fleet(fleet)).isOnline(device))
    throw enrolledAndConnected(device);
  return repository;
}

/** The note of an enrolment without a running server: nobody knows how it will be started. */
const fileDecides =
  " No server runs on this home now, so server.json alone decides: what a server is told on its command line only (--tls, --device-tokens, --host, --public-url) is not known here. Put it into server.json, or start the server first.";

/** @throws NOT_ALLOWED where this server takes no tokens */
async function requireTokens({ live, plannedEnrolment }: OperationsContext, device: string): Promise<void> {
  const known = live?.enrolment ?? (await plannedEnrolment?.());
  if (known?.takesTokens !== false) return;
  throw takesNoTokens(device, live === undefined ? fileDecides : "");
}

/**
 * Creates the device's key and token, which only the answer contains: the server keeps the public key and the
 * token's hash.
 */
export async function enroll(
  context: OperationsContext,
  input: OperationInput<"enroll">,
): Promise<Partial<Enrolment>> {
  const { fleet, device, lines, profile = "generic", initial = {}, allowReduced = false } = input;
  const { home } = context;
  await requireTokens(context, device);
  const repository = await checkEnrolment(context, input);
  await refuseOpenClaims(context, repository, input);
  await checkEnrolmentProfile(home.ports.files, profile);
  const { random, clock } = home.ports;
  const key = generateKey(random);
  const token = generateToken(random);
  const generation = repository.nextGeneration(device);
  const identity = {
    device,
    generation,
    publicKey: key.publicKey,
    tokenHash: hashToken(token),
    profile,
    lines,
  };
  const subject: DeviceSummary = {
    ...identity,
    enrolledAtMs: clock.now(),
    state: "enrolled",
    session: 0,
    active: {},
  };
  const given = await initialModels(repository, subject, { initial, allowReduced, force: input.force });
  const enrolment = sealEnrolment(
    {
      kind: "stemma-enrolment",
      format: 1,
      fleet,
      device,
      generation,
      lines,
      ...(await enrolmentAddresses(context)),
      token,
      deviceSeed: key.seed,
      devicePublicKey: key.publicKey,
      serverPublicKey: home.signer.publicKey,
      profile,
      ...(await enrolledReleases(repository, input.releases)),
    },
    `the enrolment of ${device}`,
  );
  if (input.dryRun === true) return {};
  const atMs = clock.now();
  const enrol = (): Promise<unknown> => repository.append({ type: "enrolled", atMs, ...identity });
  await (context.live?.namesAtBroker?.claim({ fleet, device }, enrol) ?? enrol());
  if (given.length > 0)
    await repository.append(
      ...given.map(({ line, summary }) => ({
        type: "assigned" as const,
        atMs,
        device,
        line,
        versionId: summary.versionId,
      })),
    );
  return enrolment;
}
