/**
 * Keeps the settings that the server has changed on this device (shared/wire/device-settings.ts), in
 * `<home>/settings.json`. They apply from the moment in which they are durable, and after each start.
 * agent.json and the profile stay as they are, and count where the server has set nothing.
 */
import { join } from "node:path";
import type { LogLevel } from "../../shared/adapters/log-forms.js";
import { isStemmaError } from "../../shared/errors.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Files } from "../../shared/ports.js";
import { areSameSettings, checkSettings, type DeviceSettings } from "../../shared/wire/device-settings.js";

const maxFileBytes = 64 * 1024;

export class ServedSettings {
  #values: DeviceSettings;
  readonly #listeners = new Set<() => void>();

  private constructor(
    private readonly files: Files,
    private readonly path: string,
    values: DeviceSettings,
  ) {
    this.#values = values;
  }

  /** A file that cannot be read counts as none: the server sends its settings again where they differ. */
  static async open(files: Files, home: string): Promise<ServedSettings> {
    const path = join(home, "settings.json");
    return new ServedSettings(files, path, await readSettings(files, path));
  }

  get values(): DeviceSettings {
    return this.#values;
  }

  /** The log level; undefined: as the device's owner configured it. */
  get logLevel(): LogLevel | undefined {
    return this.#values["log.level"] as LogLevel | undefined;
  }

  get trains(): boolean {
    return this.#values["training"] !== "off";
  }

  /** The lower one of the device's own limit and the server's; null: none. */
  bytesPerSecond(own: number | null): number | null {
    const served = this.#values["report.bytesPerSecond"];
    if (typeof served !== "number") return own;
    return own === null ? served : Math.min(own, served);
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /**
   * Replaces all settings; resolves once they are durable and apply.
   * @throws SETTING_INVALID, FILE_FAILED, DISK_FULL; nothing has changed then
   */
  async replace(values: unknown): Promise<DeviceSettings> {
    const checked = checkSettings(values);
    if (areSameSettings(checked, this.#values)) return this.#values;
    await writeDurably(
      this.files,
      this.path,
      new TextEncoder().encode(`${JSON.stringify(checked, null, 2)}\n`),
    );
    this.#values = checked;
    for (const listener of this.#listeners) listener();
    return checked;
  }
}

async function readSettings(files: Files, path: string): Promise<DeviceSettings> {
  try {
    const stat = await files.stat(path);
    if (stat === undefined || stat.size > maxFileBytes) return {};
    return checkSettings(JSON.parse(new TextDecoder().decode(await files.read(path))));
  } catch (error) {
    if (error instanceof SyntaxError || (isStemmaError(error) && error.code === "SETTING_INVALID")) return {};
    throw error;
  }
}
