/** Operations by which models travel between repositories: the source's, the target's, and the search of a hub. */
import { describeCaller, type Caller } from "../../../shared/journal/caller.js";
import { holdsRight } from "../../interface/api/rights.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { describedBundle, entriesOf, idsIn } from "./bundle-source.js";
import { beginDeposit, endDeposit, openDeposit, unfinishedIn } from "./deposits.js";
import { finishDeposit } from "./finish-deposit.js";
import { notAHub, samplesNotAllowed } from "./hub-errors.js";
import { proofOf } from "./possession.js";
import { receiveObjects } from "./receive-objects.js";
import { searchHub } from "./search-hub.js";

/** The same token's earlier facts may name other users, whom its clients name themselves. */
function describeToken({ claims: _, ...token }: Caller): string {
  return describeCaller(token);
}

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
  const isRemote = caller?.through === "http";
  /** Whoever sent one part of a deposit sends the others. */
  const owner = JSON.stringify([caller?.through, caller?.who]);
  const statedBy =
    caller?.through !== "http" || holdsRight(grant, "change-models") ? undefined : describeToken(caller);
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
      const ids = idsIn(repository, bundle, input.objects);
      return entriesOf(repository, bundle, { ids, begun: input.begun });
    },
    proveBundle: async (input) => {
      const repository = await sourceOf(input);
      const ids = idsIn(repository, await describedBundle(repository, input, false), input.objects);
      return { proof: await proofOf(repository.objects, ids, input.challenge) };
    },
    beginDeposit: async ({ fleet, manifest, force }) =>
      await beginDeposit(await fleetOf(fleet, { create: true, force }), home, { manifest, owner }),
    depositObjects: async ({ fleet, deposit: id }, entries) => {
      const repository = await fleetOf(fleet);
      const deposit = openDeposit(repository, home.ports, { id, owner });
      const { objects } = repository;
      const receiver = { home, objects, deposit, unfinished: unfinishedIn(repository) };
      const maxUnfinishedBytes = isRemote ? context.maxUnfinishedBytes : undefined;
      return { taken: await receiveObjects({ ...receiver, maxUnfinishedBytes }, entries) };
    },
    finishDeposit: async ({ fleet, deposit: id, ...end }) => {
      const repository = await fleetOf(fleet);
      const deposit = openDeposit(repository, home.ports, { id, owner });
      const answer = await finishDeposit(repository, deposit, end, { isTrusted: !isRemote, statedBy });
      if (answer.report === undefined) return answer;
      await endDeposit(repository, deposit, home.ports.files);
      return answer;
    },
    searchHub: async (input) => {
      await fleetOf(input.fleet);
      return await searchHub(context, input);
    },
  };
}
