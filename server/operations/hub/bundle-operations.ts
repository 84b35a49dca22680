/** Operations by which models travel between repositories: the source's, the target's, and the search of a hub. */
import { holdsRight } from "../../interface/api/rights.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { describedBundle, entriesOf, idsIn } from "./bundle-source.js";
import { beginDeposit, endDeposit, openDeposit } from "./deposits.js";
import { finishDeposit } from "./finish-deposit.js";
import { notAHub, samplesNotAllowed } from "./hub-errors.js";
import { proofOf } from "./possession.js";
import { receiveObjects } from "./receive-objects.js";
import { searchHub } from "./search-hub.js";

type BundleOperations = Pick<
  ServerOperations,
  | "describeBundle"
  | "bundleObjects"
  | "proveBundle"
  | "beginDeposit"
  | "depositObjects"
  | "finishDeposit"
  | "searchHub"
>;

export function bundleOperations(context: OperationsContext): BundleOperations {
  const { home, fleets, caller, grant } = context;
  const { clock } = home.ports;
  const isRemote = caller?.through === "http";
  /** Whoever sent one part of a deposit sends the others. */
  const owner = JSON.stringify([caller?.through, caller?.who]);
  const fleetOf = async (fleet: string, options = {}): Promise<FleetRepository> => {
    if (isRemote && (await context.isHub?.()) !== true) throw notAHub();
    return await fleets.get(fleet, options);
  };
  const sourceOf = async (
    input: Pick<OperationInput<"describeBundle">, "fleet" | "withData">,
  ): Promise<FleetRepository> => {
    if (input.withData === true && !holdsRight(grant, "read-data")) throw samplesNotAllowed();
    return await fleetOf(input.fleet);
  };
  return {
    describeBundle: async (input) => (await describedBundle(await sourceOf(input), input, true)).manifest,
    bundleObjects: async (input) => {
      const repository = await sourceOf(input);
      const bundle = await describedBundle(repository, input, false);
      return entriesOf(repository, bundle, idsIn(repository, bundle, input.objects));
    },
    proveBundle: async (input) => {
      const repository = await sourceOf(input);
      const ids = idsIn(repository, await describedBundle(repository, input, false), input.objects);
      return { proof: await proofOf(repository.objects, ids, input.challenge) };
    },
    beginDeposit: async ({ fleet, manifest, force }) =>
      beginDeposit(await fleetOf(fleet, { create: true, force }), home.ports, { manifest, owner }),
    depositObjects: async ({ fleet, deposit: id }, entries) => {
      const repository = await fleetOf(fleet);
      const deposit = openDeposit(repository, clock, { id, owner });
      return { taken: await receiveObjects(home, repository, deposit, entries) };
    },
    finishDeposit: async ({ fleet, deposit: id, ...end }) => {
      const repository = await fleetOf(fleet);
      const deposit = openDeposit(repository, clock, { id, owner });
      const answer = await finishDeposit(repository, deposit, end, !isRemote);
      if (answer.report !== undefined) endDeposit(repository, clock, deposit);
      return answer;
    },
    searchHub: async (input) => {
      await fleetOf(input.fleet);
      return await searchHub(context, input);
    },
  };
}
