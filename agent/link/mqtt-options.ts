/**
 * Sets up this device's MQTT: 3.1.1, clean sessions, time-outs that ride out the failover of a broker cluster
 * (measured gaps of 9 to 15 s). Pure.
 */
import type { IClientOptions } from "mqtt";
import type { Profile } from "../settings/profile.js";

const connectTimeoutMs = 30_000;

export function mqttOptionsOf({ link }: Pick<Profile, "link">): IClientOptions {
  // A new client for each session: each has its own number, and so its own will.
  return {
    protocolVersion: 4,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: connectTimeoutMs,
    keepalive: link.keepaliveSeconds,
    resubscribe: false,
    queueQoSZero: false,
  };
}
