/**
 * Takes the place of ../engine/member-pool.ts in the native runner. The library has threads of its own, and one copy in
 * a process: members of ensembles are trained one after the other.
 */
import type { StartPool } from "../ensembles/fit-ensemble.js";

export const memberPools = (): StartPool => () => undefined;
