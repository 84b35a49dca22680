/**
 * Greets a connecting device: its identity and what the server has of it, the owner's releases, its
 * assignments, settings and recipes. And again what of that changes while devices are connected.
 */
import { messageOf } from "../../../../shared/error-text.js";
import { partsOf } from "../../../../shared/trust/releases/release-set.js";
import { protocolVersion } from "../../../../shared/wire/limits.js";
import type { Birth, LineHead, Welcome } from "../../../../shared/wire/messages.js";
import type { FleetIngestParts, IngestServices } from "../compose-ingest.js";
import type { OnlineDevice } from "./device-sessions.js";
import { historyWarning } from "./history-warning.js";

export class DeviceGreeting {
  constructor(
    private readonly parts: Pick<
      FleetIngestParts,
      "repository" | "clock" | "limits" | "serverVersion" | "events" | "log"
    >,
    private readonly services: Pick<
      IngestServices,
      "sessions" | "sender" | "offers" | "proofs" | "lines" | "settings" | "recipes"
    >,
  ) {}

  /** Answers the birth of a device, at first or again. */
  async born(device: string, online: OnlineDevice, birth: Birth, challenge: string): Promise<void> {
    const { repository, clock, limits, serverVersion, events } = this.parts;
    const { sender, offers, proofs } = this.services;
    // A birth that an earlier enrolment left at an external broker.
    const { generation = repository.device(device)?.generation } = birth;
    if (generation !== repository.device(device)?.generation) return;
    const isFirst = online.birth === undefined;
    online.birth = birth;
    if (isFirst)
      events.emit({
        event: "device-connected",
        fleet: repository.fleet,
        device,
        session: online.session,
        profile: birth.profile,
      });
    const history = await proofs.welcome(birth);
    // Another connection may have taken over meanwhile.
    if (this.services.sessions.get(device) !== online) return;
    offers.born(device, birth.heads);
    online.provenLength = history.head?.length;
    online.challenge = challenge;
    online.isUnproven = history.start === undefined;
    if (isFirst && history.start === undefined) this.#noteOtherHistory(device, birth);
    const restored = repository.restores().at(-1);
    const welcome: Welcome = {
      type: "welcome",
      serverVersion,
      protocol: protocolVersion,
      ...history,
      clockMs: clock.now(),
      restored: restored !== undefined,
      restoredPosition: restored?.position ?? 0,
      known: this.#headsOf(device),
      blockBytes: limits.blockBytes,
      window: limits.window,
    };
    await sender.send(device, welcome, challenge);
    await this.#sendReleases(device, birth);
    // Behind the roots, whose keys may have signed it; a device to which it is new sends its birth again.
    await this.#sendTime(device);
    await offers.offerAll(device);
    this.bringSettings(device);
    this.#bringRecipes(device);
  }

  /** Sends the owner's releases to connected devices, and offers again what is assigned to them. */
  async releasesChanged(): Promise<void> {
    for (const [device, online] of this.services.sessions.all()) {
      if (online.birth === undefined) continue;
      await this.#sendReleases(device, online.birth);
      await this.services.offers.offerAll(device);
      this.#bringRecipes(device);
    }
  }

  /** Offers again what is assigned to connected devices: the journal up to there may be cosigned now. */
  async cosigned(): Promise<void> {
    for (const [device, { birth }] of this.services.sessions.all())
      if (birth !== undefined) await this.services.offers.offerAll(device);
  }

  /** Sends the owner's statement of the time to connected devices. */
  async timeStated(): Promise<void> {
    for (const [device, online] of this.services.sessions.all())
      if (online.birth !== undefined) await this.#sendTime(device);
  }

  /** Answers their last birth again, with the signature. */
  async restoreApproved(): Promise<void> {
    for (const [device, online] of this.services.sessions.all())
      if (online.birth !== undefined && online.isUnproven === true)
        await this.born(device, online, online.birth, online.challenge ?? "");
  }

  /** A recipe of the fleet's own was approved, or its approval revoked: connected devices are told. */
  recipesChanged(): void {
    for (const [device, online] of this.services.sessions.all())
      if (online.birth !== undefined) this.#bringRecipes(device);
  }

  /** Brings the settings without waiting: the answer comes behind other messages of the device. */
  bringSettings(device: string): void {
    this.services.settings.bring(device).catch((error: unknown) => {
      this.parts.log.error("settings-failed", { device, message: messageOf(error) });
    });
  }

  /** Brings the recipes without waiting, as settings. */
  #bringRecipes(device: string): void {
    this.services.recipes.bring(device).catch((error: unknown) => {
      this.parts.log.error("recipes-failed", { device, message: messageOf(error) });
    });
  }

  async #sendTime(device: string): Promise<void> {
    const { statement } = this.parts.repository.ownerTime() ?? {};
    if (statement !== undefined) await this.services.sender.send(device, { type: "ownerTime", statement });
  }

  /** The metadata of releases, before offers that need it. A device that looks at none is sent none. */
  async #sendReleases(device: string, { releasePolicy, releaseSet }: Birth): Promise<void> {
    if (releasePolicy === undefined) return;
    const releases = await this.parts.repository.releases();
    const parts = releases === undefined ? [] : partsOf(releases.set);
    if (parts[0]?.set === releaseSet) return;
    for (const part of parts) await this.services.sender.send(device, part);
  }

  /** The device believes this server only if a restore explains it, which it has not seen yet. */
  #noteOtherHistory(device: string, birth: Birth): void {
    const { repository, log } = this.parts;
    const { level, name, text } = historyWarning(device, birth, repository.restores());
    log[level](name, {
      device,
      seen: birth.seenJournalLength,
      length: repository.journal.head().length,
      text,
    });
  }

  #headsOf(device: string): readonly LineHead[] {
    const known = this.parts.repository.device(device);
    return (known?.lines ?? []).flatMap((line) => {
      const head = this.services.lines.head(device, line, known?.generation);
      const active = known?.active[line];
      if (head === undefined && active === undefined) return [];
      const activeVersionId = active?.versionId;
      const activeNumber = active?.number;
      return [
        {
          line,
          sequence: head?.record.sequence ?? 0,
          versionId: head?.versionId,
          activeVersionId,
          activeNumber,
        },
      ];
    });
  }
}
