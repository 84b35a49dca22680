/**
 * Offers server models to devices, signed, until a device runs its assigned version. A version that a rollout
 * stages is offered to be kept, and not yet run. downloads.ts serves what the device then fetches.
 */
import { stackOf } from "../../../../shared/error-text.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { modelObjectsOf } from "../../../../shared/model/record-objects.js";
import { signOffer } from "../../../../shared/trust/signatures.js";
import type { LineHead, SmallObject } from "../../../../shared/wire/messages.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { ServerSigner } from "../../../storage/repository/home.js";
import { isKnown } from "../uploads/claims.js";
import { fittingInline, type DeviceSender } from "../sessions/device-sender.js";
import { loggedVersion, readLogged } from "./logged-version.js";
import { OfferRepeats } from "./offer-repeats.js";
import { offeredExtras } from "./offered-pipeline.js";

export interface OfferParts {
  readonly repository: Pick<
    FleetRepository,
    | "fleet"
    | "objects"
    | "device"
    | "assignment"
    | "isAssignmentAnswered"
    | "stagedFor"
    | "get"
    | "claim"
    | "releases"
    | "isRedacted"
    | "journal"
    | "checkpoints"
  >;
  readonly signer: ServerSigner;
  readonly sender: DeviceSender;
  readonly clock: Pick<Clock, "after">;
  readonly log: Pick<Log, "error">;
  /** The length of the newest head that was sent to the device in this session; undefined: none. */
  provenLength(device: string): number | undefined;
  /** `carried`: small objects that the offer brought along. */
  onOffered(device: string, line: string, versionId: Hash, carried: readonly Hash[]): void;
  /** The version goes out without the input pipeline that its release has, which cannot be made any more. */
  onPipelineLost(versionId: Hash): void;
}

/** Objects of the model up to this many bytes travel inside the offer. */
const maxInlineBytes = 16 * 1024;

/** An input pipeline as far as it travels inside the offer; beside a long record the device fetches it. */
function inlined(bytes: Uint8Array, record: Uint8Array): Uint8Array | undefined {
  return bytes.length <= maxInlineBytes && record.length <= maxInlineBytes ? bytes : undefined;
}

export class Offers {
  /** The version that each line runs, as connected devices named them in their births and reported since. */
  readonly #reported = new Map<string, Map<string, Hash>>();
  /**
   * Devices that run a version that is not known here yet, such as one trained since the last connection: it may
   * descend from what is assigned, and an offer would take its training back.
   */
  readonly #undecided = new Set<string>();
  readonly #repeats: OfferRepeats;
  constructor(private readonly parts: OfferParts) {
    this.#repeats = new OfferRepeats(parts.clock, (device, line) => {
      // An offer may have been under way when the device's connection ended.
      if (!this.#reported.has(device)) {
        this.#repeats.ended(device);
        return;
      }
      this.#offerAssigned(device, line).catch((error: unknown) => {
        parts.log.error("offer-not-repeated", { device, line, text: stackOf(error) });
      });
    });
  }

  /** A device is connected and names the versions that it runs. */
  born(device: string, heads: readonly LineHead[]): void {
    const lines = this.parts.repository.device(device)?.lines ?? [];
    this.#reported.set(
      device,
      new Map(
        heads.flatMap(({ line, activeVersionId }) =>
          activeVersionId !== undefined && lines.includes(line) ? [[line, activeVersionId]] : [],
        ),
      ),
    );
  }
  /** A connected device reports that a line runs another version. */
  activated(device: string, { line, versionId }: { readonly line: string; readonly versionId: Hash }): void {
    this.#reported.get(device)?.set(line, versionId);
    this.answered(device, versionId);
  }
  /** A connected device fetches a version, or has told something about it: it has the offer. */
  answered(device: string, versionId: Hash): void {
    this.#repeats.answered(device, versionId);
  }
  /** The device's connection ended. */
  ended(device: string): void {
    this.#reported.delete(device);
    this.#undecided.delete(device);
    this.#repeats.ended(device);
  }
  close(): void {
    this.#repeats.close();
  }

  /**
   * Offers what is assigned to the device's lines, unless it runs there or is an ancestor of what runs. A version
   * that was assigned again is offered even where the line has already built on it.
   * @param allowed the rollout in which it is the device's turn: what that stages is offered, too
   */
  async offerAll(device: string, allowed?: string): Promise<void> {
    const { repository } = this.parts;
    const known = repository.device(device);
    if (known === undefined) return;
    this.#undecided.delete(device);
    for (const line of known.lines) await this.#offerAssigned(device, line);
    for (const { line, versionId, rollout } of repository.stagedFor(device)) {
      if (rollout !== allowed) continue;
      const summary = known.lines.includes(line) ? repository.get(versionId) : undefined;
      if (summary !== undefined && summary.state !== "retired")
        await this.#offer(device, line, summary, { staged: true });
    }
  }

  /** A version of the device, or its claim, was recorded: offers what could not be decided without it. */
  async recorded(device: string): Promise<void> {
    if (this.#undecided.has(device)) await this.offerAll(device);
  }

  async #offerAssigned(device: string, line: string): Promise<void> {
    const { repository } = this.parts;
    const assigned = repository.assignment(device, line);
    if (assigned === undefined) return;
    const named = this.#reported.get(device)?.get(line);
    // A version that the device names is newer than the journal's: its report may still be on the way.
    const active = named ?? repository.device(device)?.active[line]?.versionId;
    if (active === assigned) return;
    if (repository.isAssignmentAnswered(device, line)) {
      if (active !== undefined && this.#isInLineageOf(active, assigned)) return;
      if (named !== undefined && !isKnown(repository, named)) {
        this.#undecided.add(device);
        return;
      }
    }
    const summary = repository.get(assigned);
    if (summary === undefined || summary.state === "retired") return;
    this.#repeats.sent(device, line, assigned);
    await this.#offer(device, line, summary);
  }

  #isInLineageOf(versionId: Hash, ancestor: Hash): boolean {
    const { repository } = this.parts;
    const seen = new Set([versionId]);
    // A set's iteration also visits what is added during it.
    for (const id of seen) {
      if (id === ancestor) return true;
      const { record } = repository.get(id) ?? repository.claim(id) ?? {};
      for (const base of record?.bases ?? []) seen.add(base);
    }
    return false;
  }

  async #offer(
    device: string,
    line: string,
    summary: VersionSummary,
    { staged = false }: { readonly staged?: boolean } = {},
  ): Promise<void> {
    const { repository, signer, sender } = this.parts;
    const { versionId, name, version } = summary;
    const record = await repository.objects.read("record", versionId);
    const objects: SmallObject[] = [];
    for (const { kind, id } of modelObjectsOf(summary.record)) {
      const stat = repository.objects.stat(id);
      if (stat !== undefined && stat.byteLength <= maxInlineBytes)
        objects.push({ kind, data: await repository.objects.read(kind, id) });
    }
    const generation = repository.device(device)?.generation;
    const { fleet } = repository;
    const signature = signOffer(signer, { fleet, device, line, versionId, generation, staged });
    const { release, pipeline, isPipelineLost } = await offeredExtras(repository, versionId);
    if (isPipelineLost) this.parts.onPipelineLost(versionId);
    const logged = await readLogged(repository, summary.position);
    const pipelineData = pipeline === undefined ? undefined : inlined(pipeline.bytes, record);
    const fixedBytes =
      record.length + (release?.manifest.length ?? 0) + (pipelineData?.length ?? 0) + (logged?.bytes ?? 0);
    const inline = fittingInline(objects, fixedBytes);
    await sender.send(device, {
      type: "offer",
      line,
      versionId,
      record,
      objects: inline,
      signature,
      name,
      version,
      generation,
      staged: staged || undefined,
      release,
      pipeline: pipeline && { id: pipeline.id, data: pipelineData },
      // Proven from the head that was sent last: nothing is awaited between this and sending.
      logged: logged && loggedVersion(repository, logged, this.parts.provenLength(device)),
    });
    this.parts.onOffered(
      device,
      line,
      versionId,
      inline.map(({ kind, data }) => objectId(kind, data)),
    );
  }
}
