/** The simulated devices of one process: adds them, reports what they did, ends them. */
import { mapConcurrent } from "../../shared/concurrency/map-concurrent.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import type { DeviceOrder, HostOrder, HostReport } from "../../shared/simulation/simulation-messages.js";
import { loadProfile, type Profile } from "../settings/profile.js";
import { PiecePool } from "./pooled-content.js";
import { SimulatedDevice, type Trouble } from "./simulated-device.js";

/** Devices that are started, or stopped, at the same time. */
const atOnce = 8;
const maxExamples = 5;

export class DeviceHost {
  readonly #devices = new Map<string, SimulatedDevice>();
  readonly #profiles = new Map<string, Profile>();
  readonly #pool = new PiecePool();
  readonly #troubles = new Map<string, number>();
  readonly #examples: string[] = [];

  async perform(order: HostOrder): Promise<HostReport | null> {
    switch (order.do) {
      case "add":
        await mapConcurrent(order.devices, atOnce, (device) => this.#add(device));
        return null;
      case "save":
        for (const [device, atMs] of Object.entries(order.savesAtMs))
          this.#devices.get(device)?.saveLater(atMs);
        return null;
      case "report":
        return this.#report();
      case "end":
        await mapConcurrent([...this.#devices.values()], atOnce, (device) => device.stop());
        return this.#report();
    }
  }

  async #add(order: DeviceOrder): Promise<void> {
    const profile = this.#profiles.get(order.profile) ?? (await loadProfile(nodeFiles(), order.profile));
    this.#profiles.set(order.profile, profile);
    const device = new SimulatedDevice(order, profile, this.#pool, (trouble) => {
      this.#note(trouble);
    });
    this.#devices.set(device.name, device);
    await device.start();
  }

  #note({ event, text }: Trouble): void {
    this.#troubles.set(event, (this.#troubles.get(event) ?? 0) + 1);
    this.#examples.push(`${event}: ${text.slice(0, 300)}`);
    if (this.#examples.length > maxExamples) this.#examples.shift();
  }

  #report(): HostReport {
    const devices = [...this.#devices.values()];
    const runs: Record<string, number> = {};
    for (const { runs: version } of devices)
      if (version !== undefined) runs[version] = (runs[version] ?? 0) + 1;
    const sum = (of: (device: SimulatedDevice) => number): number =>
      devices.reduce((all, device) => all + of(device), 0);
    return {
      devices: devices.length,
      connected: sum(({ isConnected }) => Number(isConnected)),
      runs,
      saves: devices.flatMap(({ name, saves }) =>
        [...saves].map(([versionId, save]) => ({ device: name, versionId, ...save })),
      ),
      savesToCome: sum(({ savesToCome }) => savesToCome),
      bytesUp: sum(({ link }) => link.bytesUp),
      bytesDown: sum(({ link }) => link.bytesDown),
      breaks: sum(({ link }) => link.breaks),
      troubles: Object.fromEntries(this.#troubles),
      examples: [...this.#examples],
      residentBytes: process.memoryUsage.rss(),
    };
  }
}
