/** The events of a server as lines of its log. */
import { defined } from "../../../shared/defined.js";
import type { Log } from "../../../shared/ports.js";
import type { ServerEvent } from "../api/event-schemas.js";
import { counted } from "../../../shared/printable.js";

/** The sentence about a refused connection; its count says how many there were of this name. */
export function refusedText(name: string, message: string, count: number): string {
  return `${name} was not admitted${count === 1 ? "" : ` (${count} times by now)`}: ${message}`;
}

/** Logs what happens in the fleets; the steps of single transfers only at level debug. */
export async function logEvents(events: AsyncIterable<ServerEvent>, log: Log): Promise<void> {
  for await (const event of events) {
    const { event: name, atMs: _atMs, ...fields } = event;
    switch (event.event) {
      case "device-connected":
      case "device-disconnected":
      case "offered":
      case "activated":
      case "parked":
        log.info(name, fields);
        break;
      case "recorded":
        log.info(name, {
          fleet: event.fleet,
          device: event.device,
          line: event.line,
          versionId: event.versionId,
          text: `${event.name}:${event.version}, ${event.wireBytes} bytes on the wire of ${event.tensorBytes}`,
        });
        break;
      case "retention":
        if (event.retired > 0)
          log.info(name, {
            ...fields,
            text: `${counted(event.retired, "version")} retired by rule, ${event.kept} kept`,
          });
        break;
      case "connection-refused":
        log.warn(name, {
          fleet: event.fleet,
          device: event.device,
          code: event.code,
          address: event.address,
          count: event.count,
          text: refusedText(event.device, event.message, event.count),
        });
        break;
      case "device-quarantined":
      case "refused":
      case "guard":
        log.warn(name, fields);
        break;
      case "device-event":
        log.info(name, {
          fleet: event.fleet,
          device: event.device,
          line: event.line,
          ...defined({ versionId: event.versionId }),
          kind: event.name,
          text: event.text,
        });
        break;
      default:
        log.debug(name, fields);
    }
  }
}
