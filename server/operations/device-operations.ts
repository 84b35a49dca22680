/** Operations on devices: list, show, enroll, revoke, assign, command. */
import { checkEnrolmentProfile } from "./enrolment-profile.js";
import { byOf } from "../../shared/journal/caller.js";
import { StemmaError } from "../../shared/errors.js";
import { generateKey } from "../../shared/trust/keys.js";
import { sealEnrolment, type Enrolment } from "../../shared/trust/enrolment.js";
import { generateToken, hashToken } from "../../shared/trust/token.js";
import { defaultRoot, isName } from "../../shared/wire/topics.js";
import { refuseReduced } from "../evaluation/reduced-models.js";
import type { DeviceSummary, FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { CallOutput, OperationInput, ServerOperations } from "../api/server-operations.js";
import type { OperationsContext } from "../context/operations-context.js";
import { versionOrRelease } from "./version-or-release.js";
import { claimsOf, refuseOpenClaims } from "./open-claims.js";
import { withoutTokenHash } from "../context/without-secrets.js";
import { messageOfResult, refusedBy, requireDevice } from "./required-device.js";

type DeviceOperations = Pick<
  ServerOperations,
  | "devices"
  | "device"
  | "labelDevices"
  | "enroll"
  | "addresses"
  | "revoke"
  | "assign"
  | "rollbackDevice"
  | "command"
  | "trainOnDevice"
  | "evaluateOnDevice"
>;

const defaultMqttUrl = "mqtt://127.0.0.1:1883";

function runsOf(repository: FleetRepository, { active }: DeviceSummary): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(active).map(([line, { versionId }]) => {
      const version = repository.get(versionId);
      return [line, version === undefined ? versionId.slice(0, 12) : `${version.name}:${version.version}`];
    }),
  );
}

/** The newest model of each line that this generation of the device reported. */
function headsOf(
  repository: FleetRepository,
  { device, lines, generation }: DeviceSummary,
): CallOutput<"device">["heads"] {
  return lines.flatMap((line) => {
    const head = repository
      .versions({ device, line, includeRetired: true })
      .filter((version) => version.generation === generation)
      .reduce<VersionSummary | undefined>(
        (newest, version) =>
          newest === undefined || version.record.sequence > newest.record.sequence ? version : newest,
        undefined,
      );
    if (head === undefined) return [];
    const { versionId, name, version, state, record } = head;
    return [{ line, versionId, name, version, sequence: record.sequence, state }];
  });
}

function checkName(what: string, name: string): void {
  if (!isName(name))
    throw new StemmaError(
      "NAME_INVALID",
      `${JSON.stringify(name.slice(0, 80))} cannot name a ${what}: use letters, digits, "-" and "_", beginning with a letter or digit, at most 64 of them.`,
      { what },
    );
}

/** What only a running server knows of a device. */
type LiveState = Pick<CallOutput<"device">, "online" | "doubt"> & { readonly seenAtMs?: number };

export function deviceOperations(context: OperationsContext): DeviceOperations {
  const { fleets, live, home } = context;
  const liveState = async (fleet: string, device: string): Promise<LiveState> => {
    const liveFleet = await live?.fleet(fleet);
    const doubt = liveFleet?.doubtOf(device);
    const seenAtMs = liveFleet?.seenAtMs(device);
    return {
      online: liveFleet?.isOnline(device) ?? false,
      ...(doubt && { doubt }),
      ...(seenAtMs === undefined ? {} : { seenAtMs }),
    };
  };
  const command = async ({
    fleet,
    device,
    name,
    body,
    timeoutMs = 30_000,
  }: OperationInput<"command">): Promise<CallOutput<"command">> => {
    if (live === undefined)
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        "Devices can be reached through a running server only, and none runs on this home. Start one with `stemma server`.",
      );
    requireDevice(await fleets.get(fleet), device);
    const liveFleet = await live.fleet(fleet);
    if (!liveFleet.isOnline(device))
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        `The device ${device} is not connected now. Ask again when \`stemma device list\` shows it online.`,
        { device },
      );
    return liveFleet.command(device, name, body, timeoutMs);
  };
  const operations: DeviceOperations = {
    devices: async ({ fleet, select, offset = 0, limit = Infinity }) => {
      const repository = await fleets.get(fleet);
      const listed = (devices: readonly DeviceSummary[]): Promise<CallOutput<"devices">> =>
        Promise.all(
          devices.map(async (device) => ({
            ...withoutTokenHash(device),
            ...(await liveState(fleet, device.device)),
            runs: runsOf(repository, device),
          })),
        );
      if (select === undefined) return await listed(repository.devices().slice(offset, offset + limit));
      const { selectionTest } = await import("./select-devices.js");
      const isMeant = selectionTest(repository, select, home.ports.clock.now());
      return (await listed(repository.devices())).filter(isMeant).slice(offset, offset + limit);
    },
    device: async ({ fleet, device }) => {
      const repository = await fleets.get(fleet);
      return {
        ...withoutTokenHash(requireDevice(repository, device)),
        ...(await liveState(fleet, device)),
        runs: runsOf(repository, requireDevice(repository, device)),
        heads: headsOf(repository, requireDevice(repository, device)),
        versions: repository.versions({ device, includeRetired: true }).length,
        claims: claimsOf(repository, device),
      };
    },
    labelDevices: async ({ fleet, device, select, ...change }) => {
      const repository = await fleets.get(fleet);
      if ((device === undefined) === (select === undefined))
        throw new StemmaError("USAGE", "Name either one device or a selection of devices to label.");
      const devices =
        device === undefined
          ? (await operations.devices({ fleet, select })).map((each) => each.device)
          : [requireDevice(repository, device).device];
      const { labelDevices } = await import("./select-devices.js");
      return labelDevices(repository, devices, { ...change, atMs: home.ports.clock.now() });
    },
    enroll: (options) => enroll(context, options),
    addresses: async () => ({
      ...(await enrolmentAddresses(context)),
      serverPublicKey: home.signer.publicKey,
    }),
    revoke: async ({ fleet, device, because = "", evenIfClaimed }) => {
      const repository = await fleets.get(fleet);
      requireDevice(repository, device);
      await refuseOpenClaims(context, repository, { device, evenIfClaimed });
      await repository.append({ type: "revoked", atMs: home.ports.clock.now(), device, because });
      await (await live?.fleet(fleet))?.cutOff(device);
    },
    assign: async (input) => {
      const { fleet, device } = input;
      const repository = await fleets.get(fleet);
      const model = await versionOrRelease(repository, input.model);
      const summary = await assign(context, repository, { ...input, model });
      await (await live?.fleet(fleet))?.assigned(device);
      return summary;
    },
    rollbackDevice: async ({ fleet, device, line, to, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const known = requireDevice(repository, device);
      const { modelBefore } = await import("./device-rollback.js");
      const { versionId } = modelBefore(repository, { device, line, to });
      const given = { line, model: versionId, allowReduced: true };
      if (dryRun) return assignable(repository, known, given);
      return operations.assign({ fleet, device, ...given });
    },
    command,
    evaluateOnDevice: async ({
      fleet,
      device,
      line,
      models = [],
      limit,
      timeoutMs = evaluationTimeoutMs,
    }) => {
      const repository = await fleets.get(fleet);
      const versionIds = models.map((model) => repository.resolve(model).versionId);
      const body = { line, versionIds, ...(limit === undefined ? {} : { limit }) };
      const { code, result } = await command({ fleet, device, name: "evaluate", body, timeoutMs });
      if (code !== "" && code.toLowerCase() !== "ok") throw refusedBy(device, code, result);
      const { evaluationOf } = await import("./device-evaluation.js");
      return evaluationOf(repository, device, result);
    },
    trainOnDevice: async ({ fleet, device, line, parameters }) => {
      const body = {
        line,
        ...(parameters === undefined ? {} : { parameters }),
        // Its provenance names who asked.
        ...byOf({ by: context.caller }),
      };
      const { code, result } = await command({ fleet, device, name: "train", body });
      return {
        accepted: code === "" || code.toLowerCase() === "ok" || code.toLowerCase() === "accepted",
        message: messageOfResult(result) ?? code,
      };
    },
  };
  return operations;
}

/** How long a device may measure its models. */
const evaluationTimeoutMs = 300_000;

/** The version that a line starts from. It must have its tensors, so it must not be retired. */
function assignable(
  repository: FleetRepository,
  device: DeviceSummary,
  { line, model, allowReduced }: Omit<OperationInput<"assign">, "fleet" | "device">,
): VersionSummary {
  if (!device.lines.includes(line))
    throw new StemmaError(
      "LINE_UNKNOWN",
      `The device ${device.device} has no line "${line}" (it has ${device.lines.join(", ")}). Enrol it again with this line, or name one of those.`,
      { line },
    );
  const summary = repository.resolve(model);
  if (summary.state === "retired")
    throw new StemmaError(
      "MODEL_RETIRED",
      `${summary.name}:${summary.version} is retired, so it cannot be given to a device. Name another version.`,
      { versionId: summary.versionId },
    );
  refuseReduced(summary, allowReduced);
  return summary;
}

async function assign(
  { home }: OperationsContext,
  repository: FleetRepository,
  { device, line, model, allowReduced }: OperationInput<"assign">,
): Promise<VersionSummary> {
  const summary = assignable(repository, requireDevice(repository, device), { line, model, allowReduced });
  await repository.append({
    type: "assigned",
    atMs: home.ports.clock.now(),
    device,
    line,
    versionId: summary.versionId,
  });
  return summary;
}

/** What the device pins: the root that is published now. */
async function enrolledReleases(
  repository: FleetRepository,
  policy: OperationInput<"enroll">["releases"],
): Promise<Pick<Enrolment, "releases">> {
  const root = (await repository.releases())?.set.roots.at(-1);
  if (root !== undefined) return { releases: { root, policy: policy ?? "required" } };
  if (policy === undefined || policy === "off") return {};
  throw new StemmaError(
    "RELEASE_UNKNOWN",
    `The fleet ${repository.fleet} has no releases yet, so its devices cannot ask for them. Publish some first: docs/releases.md.`,
  );
}

/** The addresses by which devices reach the server; members that are undefined are left out. */
async function enrolmentAddresses({
  live,
  plannedEnrolment,
}: OperationsContext): Promise<Omit<CallOutput<"addresses">, "serverPublicKey"> & { mqtt: string[] }> {
  const known = live?.enrolment ?? (await plannedEnrolment?.());
  if (known === undefined) return { mqtt: [defaultMqttUrl], root: defaultRoot };
  const http = known.http ?? live?.httpUrl();
  return {
    mqtt: [...known.mqtt],
    ...(http === undefined ? {} : { http }),
    ...(known.ca === undefined ? {} : { ca: known.ca }),
    root: known.root,
  };
}

/** @throws NAME_INVALID, ENROLMENT_INVALID also for a device that is enrolled and connected now */
async function checkEnrolment(
  { fleets, live }: OperationsContext,
  { fleet, device, lines }: Pick<OperationInput<"enroll">, "fleet" | "device" | "lines">,
): Promise<FleetRepository> {
  checkName("fleet", fleet);
  checkName("device", device);
  if (lines.length === 0)
    throw new StemmaError(
      "ENROLMENT_INVALID",
      "A device needs at least one line of models. Name it: --line pack-soh.",
    );
  for (const line of lines) checkName("line", line);
  const repository = await fleets.get(fleet, { create: true });
  const known = repository.device(device);
  if (known?.state === "enrolled" && live !== undefined && (await live.fleet(fleet)).isOnline(device))
    throw new StemmaError(
      "ENROLMENT_INVALID",
      `The device ${device} is enrolled and connected now; a new enrolment would cut it off. Revoke it first, or choose another name.`,
      { device },
    );
  return repository;
}

/**
 * Creates the device's key and token, which only the answer contains: the server keeps the public key and the
 * token's hash.
 */
async function enroll(
  context: OperationsContext,
  input: OperationInput<"enroll">,
): Promise<Partial<Enrolment>> {
  const { fleet, device, lines, profile = "generic", initial = {}, allowReduced = false } = input;
  const { home } = context;
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
  const given = Object.entries(initial).map(([line, model]) => ({
    line,
    summary: assignable(repository, subject, { line, model, allowReduced }),
  }));
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
  await repository.append({ type: "enrolled", atMs, ...identity });
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
