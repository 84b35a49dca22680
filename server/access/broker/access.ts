/** Decides which topics a device may publish on and subscribe to: only its own. Pure. */
import { deviceTopic, parseTopic, type Topic } from "../../../shared/wire/topics.js";
import type { DeviceIdentity } from "./broker-port.js";

const upward: ReadonlySet<Topic["kind"]> = new Set(["state", "birth", "up", "block-up"]);
const downward: ReadonlySet<Topic["kind"]> = new Set(["down", "block-down", "state", "birth"]);

function ownTopic(root: string, identity: DeviceIdentity, topic: string): Topic | undefined {
  const parsed = parseTopic(root, topic);
  return parsed?.fleet === identity.fleet && parsed.device === identity.device ? parsed : undefined;
}

/** The parsed topic; undefined where this device may not publish on it. */
export function publishable(root: string, identity: DeviceIdentity, topic: string): Topic | undefined {
  const own = ownTopic(root, identity, topic);
  return own !== undefined && upward.has(own.kind) ? own : undefined;
}
/** True if this device may subscribe to the filter. The only wildcard allowed is the one for its own blocks. */
export function maySubscribe(root: string, identity: DeviceIdentity, filter: string): boolean {
  if (filter === blockFilter(root, identity)) return true;
  const own = ownTopic(root, identity, filter);
  return own !== undefined && downward.has(own.kind);
}
export function mayRetain(topic: Topic): boolean {
  return topic.kind === "state" || topic.kind === "birth";
}

export function blockFilter(root: string, { fleet, device }: DeviceIdentity): string {
  return `${deviceTopic(root, fleet, device)}/block/down/+`;
}
/** The filter under which a device's client has subscribed to a topic; undefined where it has not. */
export function subscribedFilter(
  root: string,
  topic: Topic,
  filters: Readonly<Record<string, unknown>>,
  text: string,
): string | undefined {
  if (text in filters) return text;
  const wildcard = topic.kind === "block-down" ? blockFilter(root, topic) : undefined;
  return wildcard !== undefined && wildcard in filters ? wildcard : undefined;
}
