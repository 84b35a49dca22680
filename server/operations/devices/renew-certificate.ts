/**
 * Renewal of a device's certificate over its MQTT connection, by two commands: the device states its request, and
 * takes the answer. Both prove themselves, as over HTTPS. A person asks for it, or a device whose certificate ends
 * soon and that does not reach the server over HTTPS.
 */
import { messageOf } from "../../../shared/error-text.js";
import type { Clock, Log } from "../../../shared/ports.js";
import { parseCertificateRequest } from "../../../shared/trust/certificates/certificate-exchange.js";
import { certificateDue } from "../../../shared/wire/device-events.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { EventHub } from "../../interface/events/event-hub.js";
import { certify } from "./certificates.js";
import { certificateRefused } from "./device-errors.js";
import { refusedBy } from "./required-device.js";

/** A device that asks more often is not asked for another request. */
const pauseMs = 5 * 60_000;

/**
 * @param command sends a command to the device
 * @throws CERTIFICATE_REFUSED, QUOTA_EXCEEDED, what the device refuses with
 */
export async function renewByCommands(
  context: OperationsContext,
  device: string,
  command: (name: string, body: unknown) => Promise<CallOutput<"command">>,
): Promise<void> {
  const ask = async (name: string, body: unknown): Promise<unknown> => {
    const { code, result } = await command(name, body);
    if (code !== "" && code.toLowerCase() !== "ok") throw refusedBy(device, code, result);
    return result;
  };
  const request = parseCertificateRequest(await ask("certificate-request", {}));
  if (request.renewal?.device !== device)
    throw certificateRefused(
      device,
      "it answered with a request of another device, or for a first certificate. Ask again; if it stays so, look at the device's log.",
    );
  await ask("certificate", { answer: await certify(context, request) });
}

export interface DueRenewals {
  readonly events: Pick<EventHub, "listen">;
  readonly operations: Pick<ServerOperations, "renewDevice">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** Renews the certificates of devices that ask for it, until the signal aborts. */
export async function renewWhenDue(
  { events, operations, clock, log }: DueRenewals,
  signal: AbortSignal,
): Promise<void> {
  const asked = new Map<string, number>();
  for await (const event of events.listen(signal)) {
    if (event.event !== "device-event" || event.name !== certificateDue) continue;
    const { fleet, device } = event;
    const nowMs = clock.now();
    for (const [one, atMs] of asked) if (Math.abs(nowMs - atMs) >= pauseMs) asked.delete(one);
    const key = `${fleet}/${device}`;
    if (asked.has(key)) continue;
    asked.set(key, nowMs);
    void operations.renewDevice({ fleet, device }).catch((error: unknown) => {
      log.warn("certificate-not-renewed", { fleet, device, text: messageOf(error) });
    });
  }
}
