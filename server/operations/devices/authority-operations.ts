/**
 * Operations on the certificate authorities of a fleet's owner. Each change is a fact; it counts for the next
 * connection, and connections that it does not allow any more are ended at once. (docs/own-authority.md)
 */
import { X509Certificate } from "node:crypto";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { defined } from "../../../shared/defined.js";
import type { Fact } from "../../../shared/journal/fact.js";
import type { CallOutput, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { readAuthorityFile } from "../../access/identity/authority-file.js";
import { authorityWarnings, endingCertificates, whyCutOff } from "../../access/identity/authority-upkeep.js";
import { defaultNameForm, parseNameForm } from "../../access/identity/name-form.js";
import { checkRevocationList, type CheckedList } from "../../access/identity/revocation-list.js";
import type { RevocationList } from "../../access/identity/trusted-authority.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { AuthorityState } from "../../storage/repository/state/authority-state.js";
import { maxListedSerials } from "../../storage/repository/state/fact-schemas.js";
import { checkName } from "../../storage/repository/state/naming.js";
import { authorityExists, certificateOfAnother } from "./device-errors.js";
import { requireFleetAuthority } from "./owned-certificates.js";

type AuthorityOperations = Pick<
  ServerOperations,
  "authorities" | "addAuthority" | "removeAuthority" | "takeRevocationList"
>;
/** Lists are taken one after the other: each is compared with what the one before left. */
const lists = new SerialQueue();

type ShownAuthority = CallOutput<"authorities">[number];

export function authorityOperations(context: OperationsContext): AuthorityOperations {
  const { fleets, home } = context;
  const now = (): number => Math.round(home.ports.clock.now());
  return {
    authorities: async ({ fleet }) => {
      const repository = await fleets.get(fleet);
      return repository.authorities().map((each) => shown(each, repository.devices(), now()));
    },
    addAuthority: (input) => addAuthority(context, input),
    removeAuthority: async ({ fleet, authority, because = "by hand", dryRun = false }) => {
      const repository = await fleets.get(fleet);
      requireFleetAuthority(repository, authority);
      const devices = devicesOf(repository.devices(), authority);
      if (!dryRun) {
        await repository.append({ type: "authority-removed", atMs: now(), authority, because });
        await cutOff(context, fleet, devices);
      }
      return { devices: devices.map(({ device }) => device) };
    },
    takeRevocationList: (input) => lists.run(() => takeRevocationList(context, input)),
  };
}

/** @throws CERTIFICATE_REFUSED, NAME_INVALID, USAGE */
async function addAuthority(
  context: OperationsContext,
  input: OperationInput<"addAuthority">,
): Promise<ShownAuthority> {
  const { fleet, authority, nameForm, onEndedList, replace = false, dryRun = false } = input;
  const { fleets, home } = context;
  const atMs = Math.round(home.ports.clock.now());
  checkName("authority", authority);
  const certificates = readAuthorityFile(input.certificates, atMs);
  const repository = await fleets.get(fleet, { create: true });
  const known = repository.authority(authority);
  if (known !== undefined && !replace) throw authorityExists(authority);
  const fingerprints = new Set(certificates.map(fingerprintOf));
  const other = repository
    .authorities()
    .find(
      (each) =>
        each.authority !== authority && each.certificates.some((pem) => fingerprints.has(fingerprintOf(pem))),
    );
  if (other !== undefined) throw certificateOfAnother(authority, other.authority);
  const said = {
    authority,
    certificates: [...certificates],
    nameForm: nameForm ?? known?.nameForm ?? defaultNameForm,
    onEndedList: onEndedList ?? known?.onEndedList ?? "serve",
  } as const;
  parseNameForm(said.nameForm);
  if (dryRun)
    return shown({ ...said, atMs, revoked: new Map(), lists: new Map() }, repository.devices(), atMs);
  await repository.append({ type: "authority-added", atMs, ...said });
  // What is not trusted any more ends; devices whose certificate is still good connect again.
  if (known !== undefined) await cutOff(context, fleet, devicesOf(repository.devices(), authority));
  return shown(requireFleetAuthority(repository, authority), repository.devices(), atMs);
}

/** @throws NOT_FOUND, CERTIFICATE_REFUSED */
async function takeRevocationList(
  context: OperationsContext,
  { fleet, authority, list: text, dryRun = false }: OperationInput<"takeRevocationList">,
): Promise<CallOutput<"takeRevocationList">> {
  const { fleets, home } = context;
  const repository = await fleets.get(fleet);
  const before = requireFleetAuthority(repository, authority);
  const atMs = Math.round(home.ports.clock.now());
  const list = checkRevocationList(text, before.certificates, atMs);
  const known = before.revoked.get(list.issuer) ?? new Set<string>();
  const added = [...list.serials].filter((serial) => !known.has(serial));
  const restored = [...known].filter((serial) => !list.serials.has(serial));
  const devices = devicesOf(repository.devices(), authority);
  const listed = devices.filter(({ certificates }) => {
    const { issuer, serial } = certificates?.at(-1) ?? {};
    return issuer === list.issuer && serial !== undefined && list.serials.has(serial);
  });
  const isKnown = isSameList(before.lists.get(list.issuer), list) && added.length + restored.length === 0;
  if (!dryRun && !isKnown) {
    await repository.append(...factsOf(list, { authority, atMs, added, restored }));
    // A certificate on it may have issued others: their devices show their chain again.
    const below = devices.filter(({ certificates }) => certificates?.at(-1)?.issuer !== list.issuer);
    const isUpstream = added.length > 0 ? below : [];
    const nowBad = devices.filter(
      (device) => whyCutOff(device, (name) => repository.authority(name), atMs) !== undefined,
    );
    await cutOff(context, fleet, [...new Set([...nowBad, ...isUpstream])]);
  }
  return {
    number: list.number,
    nextUpdateMs: list.nextUpdateMs,
    revoked: list.serials.size,
    added: added.length,
    restored: restored.length,
    isKnown,
    devices: listed.map(({ device }) => device),
  };
}

/** A timer gives the same list until its authority makes the next one. */
function isSameList(known: RevocationList | undefined, list: CheckedList): boolean {
  return (
    known?.number === list.number &&
    known.thisUpdateMs === list.thisUpdateMs &&
    known.nextUpdateMs === list.nextUpdateMs
  );
}

/**
 * A list as facts that each fit into the journal. Only the last one says that the list was taken: after a crash between
 * them the same file is taken again.
 */
function factsOf(
  { issuer, number, thisUpdateMs, nextUpdateMs }: CheckedList,
  change: {
    readonly authority: string;
    readonly atMs: number;
    readonly added: readonly string[];
    readonly restored: readonly string[];
  },
): Fact[] {
  const { authority, atMs, added, restored } = change;
  const parts = Math.max(1, Math.ceil(Math.max(added.length, restored.length) / maxListedSerials));
  return Array.from({ length: parts }, (_, part) => {
    const of = (serials: readonly string[]): string[] =>
      serials.slice(part * maxListedSerials, (part + 1) * maxListedSerials);
    return {
      type: "authority-list",
      atMs,
      authority,
      issuer,
      revoked: of(added),
      restored: of(restored),
      ...(part === parts - 1 ? { list: { number, thisUpdateMs, nextUpdateMs } } : {}),
    };
  });
}

function devicesOf(devices: readonly DeviceSummary[], authority: string): readonly DeviceSummary[] {
  return devices.filter(
    ({ certificates, state }) => state !== "revoked" && certificates?.at(-1)?.authority === authority,
  );
}

async function cutOff(
  { live }: OperationsContext,
  fleet: string,
  devices: readonly DeviceSummary[],
): Promise<void> {
  const connected = await live?.fleet(fleet);
  for (const { device } of devices) if (connected?.isOnline(device) === true) await connected.cutOff(device);
}

function fingerprintOf(pem: string): string {
  return new X509Certificate(pem).fingerprint256.replaceAll(":", "").toLowerCase();
}

function shown(state: AuthorityState, devices: readonly DeviceSummary[], nowMs: number): ShownAuthority {
  const { authority, atMs, by, nameForm, onEndedList, certificates, revoked } = state;
  const certified = devicesOf(devices, authority);
  return {
    authority,
    atMs,
    nameForm,
    onEndedList,
    ...defined({ by }),
    certificates: certificates.map((pem) => {
      const certificate = new X509Certificate(pem);
      return {
        subject: certificate.subject.replaceAll("\n", ", "),
        sha256: fingerprintOf(pem),
        notAfterMs: Date.parse(certificate.validTo),
      };
    }),
    lists: [...state.lists].map(([issuer, list]) => ({
      issuer,
      ...list,
      revoked: revoked.get(issuer)?.size ?? 0,
    })),
    devices: certified.length,
    warnings: [...authorityWarnings(state, nowMs), ...endingCertificates(state, certified, nowMs)],
  };
}

/** Ends connections that were allowed when they began: a certificate or a list has ended since. */
export async function cutOffEnded(
  context: Pick<OperationsContext, "fleets" | "live" | "home">,
  onCutOff: (fleet: string, device: string, because: string) => void,
): Promise<void> {
  const nowMs = context.home.ports.clock.now();
  for (const fleet of await context.fleets.names()) {
    const repository = await context.fleets.get(fleet);
    if (!repository.hasHadAuthority()) continue;
    const connected = await context.live?.fleet(fleet);
    for (const device of repository.devices()) {
      const because = whyCutOff(device, (name) => repository.authority(name), nowMs);
      if (because === undefined || connected?.isOnline(device.device) !== true) continue;
      await connected.cutOff(device.device);
      onCutOff(fleet, device.device, because);
    }
  }
}
