/**
 * Claims: announcements of versions whose tensors the server is to make itself, by a replay. A claim costs
 * processor time, so it is taken only within limits; where it is not, the device is asked for the tensors at once.
 */
import { objectsOf } from "../../../../shared/model/record-objects.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Log } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { ClaimSummary } from "../../../storage/repository/claim.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { Accepted } from "./announcement.js";
import type { IngestLimits } from "../limits.js";

/** A version that a device claims, with the small objects that its replay needs. */
export interface ClaimOffer {
  readonly device: string;
  readonly record: SaveRecord;
  readonly provenance: Uint8Array | undefined;
  readonly openings: Uint8Array | undefined;
  /**
   * The architecture; undefined where it did not come with the announcement: it is stored already, or there is none.
   */
  readonly architecture: Uint8Array | undefined;
}

/** The part of the server that replays claims. */
export interface ClaimReplays {
  /** Returns why a replay here cannot or may not give the tensors; undefined: it can, as far as is known before. */
  whyNot(repository: FleetRepository, offer: ClaimOffer): Promise<string | undefined>;
  /** Begins to replay, because there is a claim. */
  wake(): void;
}

export interface ClaimsParts {
  readonly repository: FleetRepository;
  readonly limits: Pick<IngestLimits, "claimsPerDevice" | "claimsTotal">;
  readonly log: Log;
  /** The replays of claims; undefined: no claim is taken. */
  readonly replays: ClaimReplays | undefined;
}

export class Claims {
  constructor(private readonly parts: ClaimsParts) {}

  /** True if a claim is taken; else the tensors are wanted. */
  async isTaken(offer: ClaimOffer): Promise<boolean> {
    const why = this.#whyNot(offer) ?? (await this.#whyNotReplayed(offer));
    if (why === undefined) return true;
    const { device, record } = offer;
    this.parts.log.info("claim-not-taken", {
      device,
      line: record.line,
      text: `the parameters of a model of ${device}/${record.line} are wanted: ${why}`,
    });
    return false;
  }

  #whyNot({ device, record }: ClaimOffer): string | undefined {
    const { repository, limits } = this.parts;
    const open = repository.claims().filter(({ ended }) => ended === undefined);
    if (open.length >= limits.claimsTotal) return "too many claims of the fleet wait for their replays";
    // Claims that were not proved count until their parameters are here.
    const own = repository.claims().filter((claim) => claim.record.device === device && !claim.isDeviceGone);
    if (own.length >= limits.claimsPerDevice) return "too many claims of the device are open";
    if (record.uses?.optimizer !== undefined || record.uses?.checkpoints !== undefined)
      return "it has checkpoints or an optimizer's state";
    if (record.kind !== "architecture" || record.scheme !== undefined) return "it is no exact network";
    const [base] = record.bases;
    const isBaseHere =
      base === undefined ||
      repository.hasHad(device, base) ||
      open.some((claim) => isOwn(claim, device, base));
    return isBaseHere ? undefined : "the device did not provably have its base";
  }

  async #whyNotReplayed(offer: ClaimOffer): Promise<string | undefined> {
    const { replays, repository } = this.parts;
    return replays === undefined ? "this server takes no claims" : await replays.whyNot(repository, offer);
  }

  /**
   * An announcement by which the tensors of a known claim are wanted: as the device made it, with what is stored
   * already.
   */
  async wanted(claim: ClaimSummary): Promise<Accepted> {
    const { versionId, record, generation, tensorBytes } = claim;
    return {
      verdict: "accepted",
      versionId,
      generation,
      record,
      recordBytes: await this.parts.repository.objects.read("record", versionId),
      declared: { tensorBytes, usesTensorBytes: 0, streamed: new Map() },
      objects: new Map(),
      isClaim: false,
    };
  }
}

function isOwn({ versionId, record, isDeviceGone }: ClaimSummary, device: string, base: Hash): boolean {
  return versionId === base && record.device === device && !isDeviceGone;
}

/** Returns what a device sent with a claim, and need not send again with the tensors. */
export function claimedBy(
  repository: Pick<FleetRepository, "claim">,
  { versionId, generation }: Pick<Accepted, "versionId" | "generation">,
): readonly Hash[] {
  const claim = repository.claim(versionId);
  if (claim?.generation !== generation) return [];
  return [versionId, ...objectsOf(claim.record).map(({ id }) => id)];
}

/** True if a version is recorded or claimed: what was trained from it need not wait for it. */
export function isKnown(repository: Pick<FleetRepository, "get" | "claim">, versionId: Hash): boolean {
  return repository.get(versionId) !== undefined || repository.claim(versionId) !== undefined;
}

/** Returns the members of a claim that a receipt states; a claim has no number. */
export function asReported({
  versionId,
  record,
  position,
}: ClaimSummary): Pick<VersionSummary, "versionId" | "record" | "position" | "name" | "version"> {
  return { versionId, record, position, name: record.name, version: 0 };
}
