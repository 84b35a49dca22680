/**
 * Limits how fast models are sent: to a device by its setting, for a rollout by its policy, to the whole
 * fleet by server.json. Devices share what they have in common alike.
 */
import type { Clock } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { SharedRate } from "./shared-rate.js";

export interface SendRatesParts {
  readonly repository: Pick<FleetRepository, "device" | "stagedFor">;
  readonly clock: Pick<Clock, "monotonic" | "after">;
  /** The limit for all devices of the fleet together; null: no limit. */
  readonly fleetBytesPerSecond: number | null;
}

/** The setting of a device that limits what the server sends to it. */
export const fetchRateSetting = "fetch.bytesPerSecond";

/** Returns the most bytes a second that a device is set to be sent; null: no limit. */
export function fetchRateOf(repository: Pick<FleetRepository, "device">, device: string): number | null {
  const rate = repository.device(device)?.settings?.desired[fetchRateSetting];
  return typeof rate === "number" ? rate : null;
}

/** Waits until so many bytes of a stream may be sent. */
export type TakeRate = (bytes: number) => Promise<void>;

export class SendRates {
  readonly #fleet: SharedRate;
  readonly #devices = new Map<string, SharedRate>();
  readonly #rollouts = new Map<string, SharedRate>();

  constructor(private readonly parts: SendRatesParts) {
    this.#fleet = new SharedRate(() => parts.fleetBytesPerSecond, parts.clock);
  }

  /** The limits of a stream of a version to a device. */
  of(device: string, versionId: Hash): TakeRate {
    const { repository, clock } = this.parts;
    const own = rateIn(
      this.#devices,
      device,
      () => new SharedRate(() => fetchRateOf(repository, device), clock),
    );
    const staged = repository.stagedFor(device).find((one) => one.versionId === versionId);
    const rate = staged?.maxBytesPerSecond;
    const rollout =
      staged === undefined || rate === undefined
        ? undefined
        : rateIn(this.#rollouts, staged.rollout, () => new SharedRate(() => rate, clock));
    return async (bytes) => {
      await own.take(device, bytes);
      await rollout?.take(device, bytes);
      await this.#fleet.take(device, bytes);
    };
  }

  /** Ends the sending to the device: what waits for its turn resolves. */
  end(device: string): void {
    this.#devices.get(device)?.end(device);
    this.#devices.delete(device);
    for (const [name, rate] of this.#rollouts) {
      rate.end(device);
      if (rate.isIdle) this.#rollouts.delete(name);
    }
    this.#fleet.end(device);
  }
}

function rateIn(rates: Map<string, SharedRate>, key: string, make: () => SharedRate): SharedRate {
  const known = rates.get(key);
  if (known !== undefined) return known;
  const made = make();
  rates.set(key, made);
  return made;
}
