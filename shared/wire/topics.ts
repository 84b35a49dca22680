/**
 * Builds and parses the MQTT topics of devices, below <root>/v1/<fleet>/<device>/. They have at most seven slashes, no
 * dots (NATS refuses them) and names of one alphabet, so that no name can widen a topic. The line is inside the
 * message. (docs/protocol.md, "Topics")
 */
import { StemmaError } from "../errors.js";
import { maxNameLength } from "./limits.js";

export const defaultRoot = "stemma";

/** The purpose of a device's topic. `up`: messages of the device; `down`: messages of the server. */
export type Channel =
  | { readonly kind: "state" | "birth" | "up" | "down" }
  | { readonly kind: "block-up" | "block-down"; readonly transfer: string };
export type Topic = { readonly root: string; readonly fleet: string; readonly device: string } & Channel;

/**
 * Fleets, devices and the levels of a root: letters, digits, `-` and `_`, beginning with a letter or digit,
 * at most 64. Stricter than MQTT requires (no dots, +, #, /, NUL), so that a name is also safe as a file name
 * and client id.
 */
const namePattern = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;
const transferPattern = /^[0-9a-f]{16,32}$/;
/** The root may have two levels: with six more levels, that makes seven slashes. */
const maxRootLevels = 2;

/** The rule that isName checks, for messages. */
export const nameRule = `use 1 to ${maxNameLength} letters, digits, "-" and "_", beginning with a letter or digit`;

export function isName(name: string): boolean {
  return name.length <= maxNameLength && namePattern.test(name);
}
export function isTransferId(transfer: string): boolean {
  return transferPattern.test(transfer);
}

/** @throws TOPIC_INVALID */
export function checkName(name: string, subject: string): string {
  if (!isName(name))
    throw new StemmaError(
      "TOPIC_INVALID",
      `The ${subject} ${JSON.stringify(name.slice(0, 80))} is not a valid name: ${nameRule}.`,
      { what: subject, name: name.slice(0, 80) },
    );
  return name;
}
/** @throws TOPIC_INVALID */
export function checkRoot(root: string): string {
  const levels = root.split("/");
  if (levels.length > maxRootLevels)
    throw new StemmaError(
      "TOPIC_INVALID",
      `The root topic ${JSON.stringify(root.slice(0, 80))} has ${levels.length} levels; use at most ${maxRootLevels}.`,
      { root: root.slice(0, 80) },
    );
  for (const level of levels) checkName(level, "root topic's level");
  return root;
}

const plainTails = { state: "state", birth: "birth", up: "up/words", down: "down/words" } as const;

/** @throws TOPIC_INVALID */
export function buildTopic(topic: Topic): string {
  const base = deviceTopic(topic.root, topic.fleet, topic.device);
  if (topic.kind !== "block-up" && topic.kind !== "block-down") return `${base}/${plainTails[topic.kind]}`;
  if (!isTransferId(topic.transfer))
    throw new StemmaError(
      "TOPIC_INVALID",
      `The transfer id ${JSON.stringify(topic.transfer.slice(0, 80))} is not 16 to 32 lower-case hex digits.`,
      { transfer: topic.transfer.slice(0, 80) },
    );
  return `${base}/block/${topic.kind === "block-up" ? "up" : "down"}/${topic.transfer}`;
}

/** The prefix of all topics of a device. @throws TOPIC_INVALID */
export function deviceTopic(root: string, fleet: string, device: string): string {
  return `${checkRoot(root)}/v1/${checkName(fleet, "fleet")}/${checkName(device, "device")}`;
}

function channelOf(levels: readonly string[]): Channel | undefined {
  const tail = levels.join("/");
  for (const kind of Object.keys(plainTails) as (keyof typeof plainTails)[])
    if (plainTails[kind] === tail) return { kind };
  const [block, direction, transfer, ...rest] = levels;
  if (block !== "block" || transfer === undefined || rest.length > 0 || !isTransferId(transfer))
    return undefined;
  return direction === "up"
    ? { kind: "block-up", transfer }
    : direction === "down"
      ? { kind: "block-down", transfer }
      : undefined;
}

/** Parses a topic below this root; undefined where it is not one of Stemma's. Never throws. */
export function parseTopic(root: string, topic: string): Topic | undefined {
  if (topic.length > 512 || !topic.startsWith(`${root}/v1/`)) return undefined;
  const [fleet, device, ...tail] = topic.slice(root.length + 4).split("/", 8);
  if (fleet === undefined || device === undefined || !isName(fleet) || !isName(device)) return undefined;
  const channel = channelOf(tail);
  return channel === undefined ? undefined : { root, fleet, device, ...channel };
}

/** The topic filters that a device subscribes to; it may use no others. */
export function deviceSubscriptions(root: string, fleet: string, device: string): readonly string[] {
  const base = deviceTopic(root, fleet, device);
  return [`${base}/down/words`, `${base}/block/down/+`];
}
/** The topic filters that a server behind an external broker subscribes to for one fleet. */
export function fleetSubscriptions(root: string, fleet: string): readonly string[] {
  const base = `${checkRoot(root)}/v1/${checkName(fleet, "fleet")}/+`;
  return [`${base}/state`, `${base}/birth`, `${base}/up/words`, `${base}/block/up/+`];
}
/** The MQTT client id of a connection that only renews a device's certificate. */
export function renewalClientIdOf(fleet: string, device: string): string {
  return `${clientIdOf(fleet, device)}${renewalSuffix}`;
}
export function isRenewalClientId(clientId: string): boolean {
  return clientId.endsWith(renewalSuffix);
}
const renewalSuffix = ":renewal";
/** The MQTT client id of a connection that only asks for the owner's statement of the time. */
export function timeClientIdOf(fleet: string, device: string): string {
  return `${clientIdOf(fleet, device)}${timeSuffix}`;
}
export function isTimeClientId(clientId: string): boolean {
  return clientId.endsWith(timeSuffix);
}
const timeSuffix = ":time";

/** The MQTT client id of a device: bound to its credentials by the broker. */
export function clientIdOf(fleet: string, device: string): string {
  return `${checkName(fleet, "fleet")}:${checkName(device, "device")}`;
}
