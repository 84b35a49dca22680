/**
 * Brings the settings of connected devices to what people have set. A device is told all of them, with its birth or
 * when they change, and answers with all that it has then; that is recorded where it is news. Knows no HTTP.
 */
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import {
  areSameSettings,
  checkSettings,
  type DeviceSettings,
} from "../../../../shared/wire/device-settings.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { CommandRelay } from "./commands.js";

export interface SettingsSyncParts {
  readonly repository: Pick<FleetRepository, "device" | "append">;
  readonly commands: Pick<CommandRelay, "send">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

const answerMs = 30_000;

export class SettingsSync {
  /** Devices that are being told, so that each is told one thing after the other. */
  readonly #running = new Map<string, Promise<void>>();

  constructor(private readonly parts: SettingsSyncParts) {}

  /** Tells a connected device where it does not have what was set; resolves when it has answered, or has not. */
  async bring(device: string): Promise<void> {
    const running = this.#running.get(device);
    if (running !== undefined) {
      await running;
      // Settings that were set meanwhile are brought by now, or are being brought, by whoever waited too.
      if (this.#running.has(device)) return this.#running.get(device);
    }
    const bringing = this.#bring(device).finally(() => this.#running.delete(device));
    this.#running.set(device, bringing);
    await bringing;
  }

  /** Returns the settings that the device has to be told; undefined if there are none. */
  #wanted(device: string): DeviceSettings | undefined {
    const { settings } = this.parts.repository.device(device) ?? {};
    if (settings === undefined) return undefined;
    const { desired, reported } = settings;
    // A device that has never been told, and is to have nothing, has nothing.
    return areSameSettings(desired, reported ?? {}) &&
      (reported !== null || Object.keys(desired).length === 0)
      ? undefined
      : desired;
  }

  async #bring(device: string): Promise<void> {
    const { repository, commands, clock, log } = this.parts;
    const settings = this.#wanted(device);
    if (settings === undefined) return;
    const generation = repository.device(device)?.generation;
    try {
      const { code, result } = await commands.send(
        device,
        { name: "settings", body: { settings } },
        answerMs,
      );
      if (code !== "") {
        log.warn("settings-refused", {
          device,
          code,
          text: `${device} does not take its settings: ${messageIn(result)}. An older agent does not know them; update it.`,
        });
        return;
      }
      const reported = checkSettings((result as { readonly settings?: unknown } | null)?.settings);
      const known = repository.device(device);
      if (generation === undefined || known?.generation !== generation) return;
      if (known.settings?.reported != null && areSameSettings(known.settings.reported, reported)) return;
      await repository.append({
        type: "settings-reported",
        atMs: clock.now(),
        device,
        generation,
        settings: reported,
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      log.info("settings-not-brought", {
        device,
        code: error.code,
        text: `${device} is told its settings when it connects again: ${messageOf(error)}`,
      });
    }
  }
}

function messageIn(result: unknown): string {
  const message =
    typeof result === "object" && result !== null && "message" in result
      ? String(result.message)
      : "no reason";
  return message.slice(0, 500);
}
