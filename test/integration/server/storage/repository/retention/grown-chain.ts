/** Chains of fine-tuned versions that grow by one a day, for tests of retention. */
import type { VersionSummary } from "../../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../../server/storage/repository/fleet-repository.js";
import { fineTuned, modelOf, tensorsOf, type NamedTensor, type TestHome } from "../harness.js";

export const dayMs = 24 * 3_600_000;
export const fleetScope = { of: "fleet" } as const;

export interface GrownVersion {
  readonly summary: VersionSummary;
  readonly tensors: readonly NamedTensor[];
}

/** A chain of fine-tunes, one a day; every third changes all tensors. */
export async function growChain(
  repository: FleetRepository,
  { ports }: TestHome,
  name: string,
  { days, layers = 4 }: { readonly days: number; readonly layers?: number },
): Promise<GrownVersion[]> {
  const grown: GrownVersion[] = [];
  for (let day = 0; day < days; day++) {
    const before = grown.at(-1);
    const tensors =
      before === undefined || day % 3 === 0
        ? tensorsOf(`${name} ${day}`, layers)
        : fineTuned(before.tensors, `${name} ${day}`, 3);
    grown.push({
      tensors,
      summary: (
        await repository.save(modelOf(tensors), {
          name,
          bases: before === undefined ? [] : [before.summary.versionId],
        })
      ).summary,
    });
    ports.clock.advance(dayMs);
  }
  return grown;
}

export const namesOf = (all: readonly { readonly name: string; readonly version: number }[]): string[] =>
  all.map(({ name, version }) => `${name}:${version}`);
