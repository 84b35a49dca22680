/**
 * The devices that do not believe this server, as they report it: in each session that begins so. What a device
 * reports is for people; nothing else follows from it. Known to this process alone. Pure.
 */
import { serverBelieved, serverDoubted } from "../../../../shared/wire/device-events.js";
import type { BodyType } from "../../../../shared/wire/messages.js";

export interface DeviceDoubt {
  /** The time of the device's first report, by this server's clock. */
  readonly sinceMs: number;
  /** The device's finding, and what can be done about it. */
  readonly text: string;
}

/** Messages that a device sends also to a server that it does not believe. */
const sentInDoubt: ReadonlySet<BodyType> = new Set(["birth", "event", "commandResult", "refusal", "state"]);

export class DeviceDoubts {
  readonly #doubts = new Map<string, DeviceDoubt>();

  get(device: string): DeviceDoubt | undefined {
    return this.#doubts.get(device);
  }

  /** A message of an enrolled device. */
  heard(
    device: string,
    body: { readonly type: BodyType; readonly name?: string; readonly text?: string },
    nowMs: number,
  ): void {
    if (body.type === "event" && body.name === serverDoubted)
      this.#doubts.set(device, {
        sinceMs: this.#doubts.get(device)?.sinceMs ?? nowMs,
        text: body.text ?? "",
      });
    else if (!sentInDoubt.has(body.type) || (body.type === "event" && body.name === serverBelieved))
      this.#doubts.delete(device);
  }
}
