/**
 * Names of devices at an external broker that asks them for certificates: it knows a device by its name alone, so no
 * two fleets may have the same one, whose certificate would open the other's connection.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import type { NamesAtBroker } from "../../services/context/operations-context.js";
import type { OpenFleets } from "../../services/context/open-fleets.js";
import type { ServerConfig } from "./config.js";
import { nameOfAnotherFleet, sameNames } from "./configuration-errors.js";

/** Names that an error states. */
const maxNamed = 5;

/**
 * Opens the names of a server's devices; undefined where its broker tells fleets apart.
 * @param fleets all of the home
 * @throws CONFIG_INVALID where two fleets have the same name already
 */
export async function openNamesAtBroker(
  { broker }: Pick<ServerConfig, "broker">,
  fleets: Pick<OpenFleets, "names" | "get">,
): Promise<NamesAtBroker | undefined> {
  if (broker?.deviceCertificates !== true) return undefined;
  await refuseSameNames(fleets);
  const queue = new SerialQueue();
  return {
    claim: ({ fleet, device }, enrol) =>
      queue.run(async () => {
        for (const other of await fleets.names())
          if (other !== fleet && (await fleets.get(other)).device(device) !== undefined)
            throw nameOfAnotherFleet(device);
        return enrol();
      }),
  };
}

async function refuseSameNames(fleets: Pick<OpenFleets, "names" | "get">): Promise<void> {
  const fleetOf = new Map<string, string>();
  const same: string[] = [];
  for (const fleet of await fleets.names())
    for (const { device } of (await fleets.get(fleet)).devices()) {
      const other = fleetOf.get(device);
      if (other !== undefined) same.push(`${device} in ${other} and ${fleet}`);
      fleetOf.set(device, fleet);
    }
  if (same.length === 0) return;
  throw sameNames(same, maxNamed);
}
