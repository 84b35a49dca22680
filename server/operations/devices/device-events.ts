/** The facts of a journal that are about one device, from the end backwards. */
import type { Fact } from "../../../shared/journal/fact.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ListedFact } from "../../interface/api/stores/journal-schemas.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { factCodec } from "../../storage/repository/state/fact-codec.js";
import { withoutTokenHash } from "../../services/context/without-secrets.js";
import { makerOf } from "../../storage/repository/state/version-state.js";

/** Facts that one call looks at: a page of a quiet device in a busy fleet may be short or empty. */
const maxLookedAt = 20_000;

/** True if a fact names the device, or a version that it made. */
export function isAbout(
  device: string,
  fact: Fact,
  deviceOf: (versionId: Hash) => string | undefined,
): boolean {
  if ("device" in fact) return fact.device === device;
  if (fact.type === "wave") return fact.devices.includes(device);
  return "versionId" in fact && fact.versionId !== null && deviceOf(fact.versionId) === device;
}

/** @param page `before`: only facts before this position */
export async function factsAbout(
  repository: Pick<FleetRepository, "journal" | "get" | "claim">,
  device: string,
  { before, limit }: { readonly before?: number | undefined; readonly limit: number },
): Promise<CallOutput<"deviceEvents">> {
  const { journal } = repository;
  const { length } = journal.head();
  const deviceOf = (versionId: Hash): string | undefined => {
    const version = repository.get(versionId) ?? repository.claim(versionId);
    return version && makerOf(version, version.record);
  };
  const facts: ListedFact[] = [];
  const from = Math.min(before ?? length, length);
  let position = from;
  while (position > 0 && facts.length < limit && from - position < maxLookedAt) {
    position--;
    const fact = factCodec.decode(await journal.readEntry(position));
    if (isAbout(device, fact, deviceOf)) facts.unshift({ position, ...withoutTokenHash(fact) });
  }
  return { facts, next: position > 0 ? position : null };
}
