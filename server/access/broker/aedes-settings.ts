/** Settings of aedes for whoever may connect: its deadlines and counts, and that it keeps no sessions. */
import type { AedesOptions } from "aedes";
import type { BrokerLimits } from "./broker-limits.js";

const maxInflightQos2 = 16;

export function aedesSettings(limits: BrokerLimits): AedesOptions {
  return {
    // Without an `id`, aedes picks a random one. With a fixed id it overwrote queued messages after crashes.
    // The timeout is longer than the deadline of Connections, which reports why it closes a socket.
    connectTimeout: limits.connectDeadlineMs * 2,
    drainTimeout: limits.drainTimeoutMs,
    maxInflightInbound: maxInflightQos2,
    maxTopicLevels: 8,
  };
}

/** Keeps no session, so that no offline queue can grow: a device that reconnects reports its state itself. */
export function keepNoSession(connect: { clean?: boolean }): void {
  connect.clean = true;
}
