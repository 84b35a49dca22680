/** Operations on devices: list, show, enroll, revoke, assign, command. */
import { defined } from "../../../shared/defined.js";
import { byOf } from "../../../shared/journal/caller.js";
import { StemmaError } from "../../../shared/errors.js";
import { nameOneOf } from "../../../shared/missing-errors.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { CallOutput, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { changesToShow } from "../../access/identity/key-changes.js";
import { versionOrRelease } from "../models/version-or-release.js";
import { deviceOffline, hasTokenOnly, noServerRuns, renewedByOwner } from "./device-errors.js";
import { assignable, enroll, enrolmentAddresses } from "./enrol-device.js";
import { claimsOf, refuseOpenClaims } from "../models/open-claims.js";
import { refuseOtherShape } from "../../services/context/expected-shape.js";
import { withoutTokenHash } from "../../services/context/without-secrets.js";
import { messageOfResult, refusedBy, requireDevice } from "./required-device.js";

/** The time that a device may take to renew its certificate. */
const renewalTimeoutMs = 60_000;
/** The time that a device may take to measure its models. */
const evaluationTimeoutMs = 300_000;

type DeviceOperations = Pick<
  ServerOperations,
  | "devices"
  | "device"
  | "labelDevices"
  | "enroll"
  | "invite"
  | "certify"
  | "renewDevice"
  | "addresses"
  | "revoke"
  | "assign"
  | "rollbackDevice"
  | "command"
  | "trainOnDevice"
  | "evaluateOnDevice"
>;

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
    const head = repository.headOfLine({ device, line }, generation);
    if (head === undefined) return [];
    const { versionId, name, version, state, record } = head;
    return [{ line, versionId, name, version, sequence: record.sequence, state }];
  });
}

/** The state of a device that only a running server knows. */
type LiveState = Pick<CallOutput<"device">, "online" | "doubt"> & { readonly seenAtMs?: number };

export function deviceOperations(context: OperationsContext): DeviceOperations {
  const { fleets, home } = context;
  const operations: DeviceOperations = {
    devices: (input) => listDevices(context, input),
    device: (input) => showDevice(context, input),
    labelDevices: async ({ fleet, device, select, ...change }) => {
      const repository = await fleets.get(fleet);
      if ((device === undefined) === (select === undefined))
        throw nameOneOf("a device", "a selection of devices");
      const devices =
        device === undefined
          ? (await operations.devices({ fleet, select })).map((each) => each.device)
          : [requireDevice(repository, device).device];
      const { labelDevices } = await import("./select-devices.js");
      return labelDevices(repository, devices, { ...change, atMs: home.ports.clock.now() });
    },
    enroll: (options) => enroll(context, options),
    invite: async (input) => (await import("./certificates.js")).invite(context, input),
    certify: async ({ request }) => (await import("./certificates.js")).certify(context, request),
    renewDevice: (input) => renewDevice(context, input),
    addresses: async () => {
      const keyChanges = changesToShow(home.keyChanges);
      return {
        ...(await enrolmentAddresses(context)),
        serverPublicKey: home.signer.publicKey,
        ...(keyChanges.length === 0 ? {} : { keyChanges }),
      };
    },
    revoke: (input) => revoke(context, input),
    assign: (input) => assignNamed(context, input),
    rollbackDevice: async ({ fleet, device, line, to, dryRun = false }) => {
      const repository = await fleets.get(fleet);
      requireDevice(repository, device);
      const { modelBefore } = await import("./device-rollback.js");
      const { versionId } = modelBefore(repository, { device, line, to });
      // It ran or made this before, whatever its shape.
      return operations.assign({
        ...{ fleet, device, line, model: versionId, dryRun },
        ...{ allowReduced: true, force: true },
      });
    },
    command: async (input) => {
      await refuseHeldLine(context, input);
      return sendCommand(context, input);
    },
    evaluateOnDevice: (input) => evaluateOnDevice(context, input),
    trainOnDevice: (input) => trainOnDevice(context, input),
  };
  return operations;
}

async function liveState({ live }: OperationsContext, fleet: string, device: string): Promise<LiveState> {
  const liveFleet = await live?.fleet(fleet);
  const doubt = liveFleet?.doubtOf(device);
  const seenAtMs = liveFleet?.seenAtMs(device);
  return {
    online: liveFleet?.isOnline(device) ?? false,
    ...(doubt && { doubt }),
    ...defined({ seenAtMs }),
  };
}

async function refusals(
  { live }: OperationsContext,
  fleet: string,
  device: string,
): Promise<Pick<CallOutput<"device">, "refusals">> {
  const found = (await live?.fleet(fleet))?.refusalsOf(device) ?? [];
  return found.length === 0 ? {} : { refusals: found };
}

/** The devices that a selection means; absent: all. @throws SELECTION_INVALID, MODEL_NOT_FOUND */
export async function listDevices(
  context: OperationsContext,
  { fleet, select, offset = 0, limit = Infinity }: OperationInput<"devices">,
): Promise<CallOutput<"devices">> {
  const repository = await context.fleets.get(fleet);
  const listed = (devices: readonly DeviceSummary[]): Promise<CallOutput<"devices">> =>
    Promise.all(
      devices.map(async (device) => ({
        ...withoutTokenHash(device),
        ...(await liveState(context, fleet, device.device)),
        runs: runsOf(repository, device),
      })),
    );
  if (select === undefined) return await listed(repository.devices().slice(offset, offset + limit));
  const { selectionTest } = await import("./select-devices.js");
  const isMeant = selectionTest(repository, select, context.home.ports.clock.now());
  return (await listed(repository.devices())).filter(isMeant).slice(offset, offset + limit);
}

async function showDevice(
  context: OperationsContext,
  { fleet, device }: OperationInput<"device">,
): Promise<CallOutput<"device">> {
  const repository = await context.fleets.get(fleet);
  return {
    ...withoutTokenHash(requireDevice(repository, device)),
    ...(await liveState(context, fleet, device)),
    ...(await refusals(context, fleet, device)),
    runs: runsOf(repository, requireDevice(repository, device)),
    heads: headsOf(repository, requireDevice(repository, device)),
    versions: repository.versions({ device, includeRetired: true }).length,
    claims: claimsOf(repository, device),
  };
}

/** Leaves a line to the search or evaluation that holds it. @throws TRAINING_REFUSED */
async function refuseHeldLine(
  { live }: OperationsContext,
  { fleet, name, body }: OperationInput<"command">,
): Promise<void> {
  const { line } = (body ?? {}) as { readonly line?: unknown };
  if (live === undefined || typeof line !== "string") return;
  const { endTrainingCommand } = await import("../../../shared/wire/judged-training.js");
  const changesLine = ["train", "activate", endTrainingCommand].includes(name);
  if (changesLine) (await live.fleet(fleet)).lineLeases.require(line, undefined);
}

/** Sends a command, also to a line that is held: the caller has looked. @throws SERVER_UNREACHABLE, DEVICE_UNKNOWN */
export async function sendCommand(
  { fleets, live, request }: OperationsContext,
  { fleet, device, name, body, timeoutMs = 30_000 }: OperationInput<"command">,
): Promise<CallOutput<"command">> {
  if (live === undefined) throw noServerRuns("Devices are reached");
  requireDevice(await fleets.get(fleet), device);
  const liveFleet = await live.fleet(fleet);
  if (!liveFleet.isOnline(device)) throw deviceOffline(device);
  return liveFleet.command(device, { name, body, request }, timeoutMs);
}

/** @throws DEVICE_UNKNOWN, NOT_ALLOWED where the server gave the device no certificate */
async function renewDevice(
  context: OperationsContext,
  { fleet, device }: OperationInput<"renewDevice">,
): Promise<CallOutput<"renewDevice">> {
  const { fleets } = context;
  const { certificates } = requireDevice(await fleets.get(fleet), device);
  if (certificates === undefined) throw hasTokenOnly(device);
  const { authority } = certificates.at(-1) ?? {};
  if (authority !== undefined) throw renewedByOwner(device, authority);
  const { renewByCommands } = await import("./renew-certificate.js");
  await renewByCommands(context, device, (name, body) =>
    sendCommand(context, { fleet, device, name, body, timeoutMs: renewalTimeoutMs }),
  );
  const [newest] = requireDevice(await fleets.get(fleet), device).certificates?.slice(-1) ?? certificates;
  if (newest === undefined) throw new StemmaError("INTERNAL", "A certified device has no certificate.");
  return { device, ...newest };
}

/** @throws DEVICE_UNKNOWN, CLAIMS_OPEN */
async function revoke(
  context: OperationsContext,
  { fleet, device, because = "", evenIfClaimed }: OperationInput<"revoke">,
): Promise<CallOutput<"revoke">> {
  const { fleets, live, home } = context;
  const repository = await fleets.get(fleet);
  requireDevice(repository, device);
  await refuseOpenClaims(context, repository, { device, evenIfClaimed });
  await repository.append({ type: "revoked", atMs: home.ports.clock.now(), device, because });
  await (await live?.fleet(fleet))?.cutOff(device);
}

async function assignNamed(
  context: OperationsContext,
  input: OperationInput<"assign">,
): Promise<VersionSummary> {
  const { fleet, device } = input;
  const repository = await context.fleets.get(fleet);
  const model = await versionOrRelease(repository, input.model);
  const summary = await assign(context, repository, { ...input, model });
  if (input.dryRun === true) return summary;
  await (await context.live?.fleet(fleet))?.assigned(device);
  return summary;
}

async function evaluateOnDevice(
  context: OperationsContext,
  {
    fleet,
    device,
    line,
    models = [],
    limit,
    timeoutMs = evaluationTimeoutMs,
  }: OperationInput<"evaluateOnDevice">,
): Promise<CallOutput<"evaluateOnDevice">> {
  const repository = await context.fleets.get(fleet);
  const versionIds = models.map((model) => repository.resolve(model).versionId);
  const body = { line, versionIds, ...defined({ limit }) };
  const { code, result } = await sendCommand(context, { fleet, device, name: "evaluate", body, timeoutMs });
  if (code !== "" && code.toLowerCase() !== "ok") throw refusedBy(device, code, result);
  const { evaluationOf } = await import("./device-evaluation.js");
  return evaluationOf(repository, device, result);
}

async function trainOnDevice(
  context: OperationsContext,
  { fleet, device, line, parameters, leaseKey }: OperationInput<"trainOnDevice">,
): Promise<CallOutput<"trainOnDevice">> {
  (await context.live?.fleet(fleet))?.lineLeases.require(line, leaseKey);
  const body = {
    line,
    ...defined({ parameters }),
    // Its provenance names who asked.
    ...byOf({ by: context.caller }),
  };
  const { code, result } = await sendCommand(context, { fleet, device, name: "train", body });
  return {
    accepted: code === "" || code.toLowerCase() === "ok" || code.toLowerCase() === "accepted",
    message: messageOfResult(result) ?? code,
  };
}

async function assign(
  { home, live }: OperationsContext,
  repository: FleetRepository,
  { fleet, device, line, model, allowReduced, leaseKey, force, dryRun }: OperationInput<"assign">,
): Promise<VersionSummary> {
  (await live?.fleet(fleet))?.lineLeases.require(line, leaseKey);
  const summary = assignable(repository, requireDevice(repository, device), { line, model, allowReduced });
  if (force !== true) await refuseOtherShape(repository, line, summary);
  if (dryRun === true) return summary;
  await repository.append({
    type: "assigned",
    atMs: home.ports.clock.now(),
    device,
    line,
    versionId: summary.versionId,
  });
  return summary;
}
