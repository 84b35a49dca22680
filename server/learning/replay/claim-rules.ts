/**
 * Judges before anything is queued which claims a replay here can and may prove. The engine must be this
 * build's or an approved one, the data must come with the version or from a generator, and the training may
 * cost no more than the limits allow. What was predicted of its cost also ends its replay.
 */
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Clock } from "../../../shared/ports.js";
import { isProvenance1 } from "../../../shared/provenance/encode-provenance.js";
import { openProvenance, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { ownEngine } from "../../../shared/train/own-engine.js";
import { memoryLimitMb, type TrainingLimits } from "../../services/context/training-limits.js";
import type { ClaimOffer, ClaimReplays } from "../../fleet/ingest/uploads/claims.js";
import type { IngestLimits } from "../../fleet/ingest/limits.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { predictedCost } from "../training/bounded-cost.js";
import { statedMs, type PredictedCost } from "../training/training-cost.js";
import { storyOf } from "./story.js";

interface ClaimLimits extends Pick<IngestLimits, "claimMs" | "claimMsPerHour"> {
  readonly training: TrainingLimits;
}

const hourMs = 3_600_000;
/** MiB of tensors that the training of a claim may take at most. */
const maxMemoryMb = 4096;
/** A replay may take this many times as long as was predicted, and this much longer. */
const slackFactor = 4;
const slackMs = 30_000;

export class ClaimRules implements Pick<ClaimReplays, "whyNot"> {
  /** The milliseconds of replays that each device has left, and when that was, by fleet and device. */
  readonly #allowances = new Map<string, { ms: number; atMs: number }>();

  constructor(
    private readonly limits: ClaimLimits,
    private readonly clock: Pick<Clock, "monotonic">,
  ) {}

  async whyNot(
    repository: FleetRepository,
    { device, record, architecture, ...sent }: ClaimOffer,
  ): Promise<string | undefined> {
    if (sent.provenance === undefined || !isProvenance1(sent.provenance))
      return "it came without a provenance";
    let opened: OpenedProvenance;
    try {
      opened = openProvenance(sent.provenance, sent.openings);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      return messageOf(error);
    }
    const read = storyOf(opened);
    if ("unreplayable" in read) return read.unreplayable.text;
    const { engineId, exactness, data, recipe } = read.story;
    const unfit = "bundle" in recipe ? whyNotOwn(repository, { device, record }, recipe.bundle) : undefined;
    if (unfit !== undefined) return unfit;
    if (exactness !== "wasm") return "its training depends on the machine";
    const isOwn = (await ownEngine().catch(() => undefined))?.engineId === engineId;
    if (!isOwn && !repository.engines().some((known) => known.isStored && known.engineId === engineId))
      return `the engine ${engineId.slice(0, 12)} that trained it is not approved here`;
    const [base] = read.opened.provenance.bases;
    if (base !== record.bases[0]) return "its provenance names another base than its record";
    const isGenerated = data.description !== undefined && isGenerator(data.description.reader);
    if (!isGenerated && (record.uses?.data ?? []).length < 2) return "its data stay on the device";
    if (statedMs(opened) === undefined) return "it does not state how long its training took";
    const {
      ms: costMs = 0,
      memoryBytes,
      basis,
    } = await predictedCost(repository, {
      opened,
      architecture,
      record,
    });
    if (costMs > this.limits.claimMs)
      return (
        `its training takes ${costMs} ms, ${basis}; ${this.limits.claimMs} ms are replayed ` +
        "(limits.ingest.claimMs in server.json)"
      );
    if (memoryBytes !== undefined && memoryBytes > this.memoryLimitMb * 1024 ** 2)
      return `its training takes ${memoryBytes} bytes of memory; ${this.memoryLimitMb} MiB are allowed`;
    return this.#leftOf(repository.fleet, device) < costMs
      ? "the replays of the device took their share of this hour"
      : undefined;
  }

  /** Returns the longest replay of the claim, in ms: the time that its device states is a hint, and only raises it. */
  maxMs(opened: OpenedProvenance, cost: Pick<PredictedCost, "ms">): number {
    const expected = Math.max(statedMs(opened) ?? 0, cost.ms ?? 0);
    return Math.min(this.limits.claimMs, slackFactor * expected + slackMs);
  }

  /** MiB that the tensors of a claim's training may take. */
  get memoryLimitMb(): number {
    return Math.min(maxMemoryMb, memoryLimitMb(this.limits.training));
  }

  /** A replay of the device's took so long. */
  charge(fleet: string, device: string, ms: number): void {
    const left = this.#leftOf(fleet, device) - ms;
    this.#allowances.set(`${fleet}/${device}`, { ms: left, atMs: this.clock.monotonic() });
  }

  #leftOf(fleet: string, device: string): number {
    const { claimMsPerHour } = this.limits;
    const known = this.#allowances.get(`${fleet}/${device}`);
    if (known === undefined) return claimMsPerHour;
    const refilled = known.ms + ((this.clock.monotonic() - known.atMs) * claimMsPerHour) / hourMs;
    return Math.min(claimMsPerHour, refilled);
  }
}

/** Returns why a claim by a recipe of the fleet's own is not replayed; undefined if it may be. */
function whyNotOwn(
  repository: Pick<FleetRepository, "recipes" | "wasGivenRecipe">,
  { device, record }: Pick<ClaimOffer, "device" | "record">,
  bundle: Hash,
): string | undefined {
  const own = `the recipe ${bundle.slice(0, 12)} of the fleet's own`;
  const known = repository.recipes().find(({ recipe }) => recipe === bundle);
  if (known === undefined || known.revoked !== undefined)
    return `${own} trained it, and that is not approved here`;
  if (record.uses?.recipe !== bundle) return `its provenance names ${own}, and its record does not`;
  return repository.wasGivenRecipe(device, bundle) ? undefined : `${own} was not given to the device`;
}
