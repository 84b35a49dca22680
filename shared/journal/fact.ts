/**
 * The facts of a journal, which record everything that changes over time. Types only. (docs/formats.md,
 * "Facts")
 *
 * Allotted to later releases, so that none of these names gets another meaning:
 *
 * | type | critical | for |
 * |---|---|---|
 * | `low-bits-asked`, `low-bits-answered` | no | questions for low bits |
 *
 * A critical fact has the member `critical: true`. A release that knows neither it nor its type refuses the
 * journal with FACT_INVALID; every other unknown fact is kept and ignored, and nothing is deleted meanwhile.
 */
import type { AuthorityFact } from "./facts/authority-facts.js";
import type { DeviceFact } from "./facts/device-facts.js";
import type { FleetFact } from "./facts/fleet-facts.js";
import type { RolloutFact } from "./facts/rollout-facts.js";
import type { VersionFact } from "./facts/version-facts.js";

export type Fact = VersionFact | DeviceFact | AuthorityFact | RolloutFact | FleetFact;

export type FactOf<Type extends Fact["type"]> = Extract<Fact, { readonly type: Type }>;
