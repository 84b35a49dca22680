/**
 * The fleets of one open home: each repository is opened once, when it is first needed, and all are closed
 * together.
 */
import { StemmaError } from "../../../shared/errors.js";
import { reachesFleet, type Grant } from "../../interface/api/rights.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { Home } from "../../storage/repository/home.js";
import { openRepository } from "../../storage/repository/open-repository.js";
import { noFleet } from "./context-errors.js";
import { refuseMisspeltFleet } from "./expected-names.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

export interface FleetChoice {
  readonly create?: boolean;
  readonly force?: boolean | undefined;
}

export interface OpenFleets {
  /**
   * @throws NOT_FOUND where the home has no such fleet and `create` is not set; NAME_UNLIKELY where it is set, and the
   * name is near to that of another fleet, unless `force` is set
   */
  get(fleet: string, options?: FleetChoice): Promise<FleetRepository>;
  /** Resolves once journal or object store of an open fleet take nothing more: they have to be opened again. */
  readonly failed: Promise<StemmaError>;
  /** Lists the fleets that are open now. */
  opened(): readonly FleetRepository[];
  names(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Makes the tensors of a dropped version again. What it works on are the fleets through which it was asked. */
export type RebuildVersion = (
  context: { readonly home: Home; readonly fleets: OpenFleets },
  version: { readonly fleet: string; readonly versionId: Hash },
  signal: AbortSignal,
) => Promise<void>;

/** @param rebuild absent: versions whose tensors were dropped cannot be recovered through these fleets */
export function openFleets(home: Home, rebuild?: RebuildVersion): OpenFleets {
  const repositories = new Map<string, Promise<FleetRepository>>();
  const opened = new Map<string, FleetRepository>();
  let reportFailed: (error: StemmaError) => void = () => undefined;
  const failed = new Promise<StemmaError>((resolve) => {
    reportFailed = resolve;
  });
  const open = async (fleet: string, { create, force }: FleetChoice): Promise<FleetRepository> => {
    const names = await home.fleets();
    if (create === true && force !== true) refuseMisspeltFleet(fleet, names);
    if (create !== true && !names.includes(fleet)) throw noFleet(fleet, names, `The home ${home.path}`);
    const repository = await openRepository(
      home,
      fleet,
      rebuild && ((versionId, signal) => rebuild({ home, fleets }, { fleet, versionId }, signal)),
    );
    opened.set(fleet, repository);
    void repository.failed.then(reportFailed);
    return repository;
  };
  const fleets: OpenFleets = {
    failed,
    get(fleet, choice = {}) {
      const present = repositories.get(fleet);
      if (present !== undefined) return present;
      const opening = open(fleet, choice);
      repositories.set(fleet, opening);
      opening.catch(() => repositories.delete(fleet));
      return opening;
    },
    opened: () => [...opened.values()],
    names: () => home.fleets(),
    async close() {
      await Promise.allSettled(repositories.values());
      for (const repository of opened.values()) await repository.close();
      repositories.clear();
      opened.clear();
    },
  };
  return fleets;
}

/** A user of fleets. */
interface FleetUser {
  /** The facts that are appended through the fleets are caused by this caller. */
  readonly caller: Caller;
  /** The request that the facts carry, too. */
  readonly request?: string | undefined;
  /** The fleets that the caller reaches: others are not there. */
  readonly grant?: Grant | undefined;
}

/** The same fleets as somebody uses them. */
export function fleetsAs(fleets: OpenFleets, { caller, request, grant }: FleetUser): OpenFleets {
  const names = async (): Promise<readonly string[]> =>
    (await fleets.names()).filter((fleet) => reachesFleet(grant, fleet));
  return {
    ...fleets,
    names,
    opened: () => fleets.opened().filter(({ fleet }) => reachesFleet(grant, fleet)),
    async get(fleet, options) {
      const isHere =
        grant?.fleets === undefined || options?.create === true || (await names()).includes(fleet);
      if (!isHere || !reachesFleet(grant, fleet)) throw noFleet(fleet, await names());
      return (await fleets.get(fleet, options)).as(caller, request);
    },
  };
}
