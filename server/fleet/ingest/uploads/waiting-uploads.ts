/** Announcements that wait until an upload may start, by device, in the order in which they came; bounded. Pure. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Accepted } from "./announcement.js";
import type { RefusalDetails } from "../sessions/device-sender.js";
import type { IngestLimits } from "../limits.js";
import { announcementBytes } from "./message-bytes.js";

export interface WaitingUpload {
  readonly accepted: Accepted;
  readonly withoutBase: boolean;
}

/** Milliseconds after which a device announces again what found no space here. */
const fullRetryMs = 10_000;

export class WaitingUploads {
  readonly #ofDevice = new Map<string, WaitingUpload[]>();
  #bytes = 0;

  constructor(private readonly limits: Pick<IngestLimits, "waitingPerDevice" | "waitingBytes">) {}

  *all(): Iterable<WaitingUpload & { readonly device: string }> {
    for (const [device, uploads] of this.#ofDevice) for (const upload of uploads) yield { device, ...upload };
  }
  has(device: string, versionId: Hash): boolean {
    return this.some(device, (accepted) => accepted.versionId === versionId);
  }
  some(device: string, matches: (accepted: Accepted) => boolean): boolean {
    return (this.#ofDevice.get(device) ?? []).some(({ accepted }) => matches(accepted));
  }

  /** Returns why a further announcement of a device is not queued; undefined if it may be. */
  refusalOf(device: string, accepted: Accepted): RefusalDetails | undefined {
    const { waitingPerDevice, waitingBytes } = this.limits;
    const count = this.#ofDevice.get(device)?.length ?? 0;
    if (count < waitingPerDevice && this.#bytes + announcementBytes(accepted) <= waitingBytes)
      return undefined;
    return {
      code: "QUOTA_EXCEEDED",
      message: `The server cannot queue this announcement: ${count} announcements of ${device} are waiting (at most ${waitingPerDevice}), and ${this.#bytes} bytes of all devices (at most ${waitingBytes}). Announce it again when others have been received.`,
      versionId: accepted.versionId,
      retryAfterMs: fullRetryMs,
    };
  }

  add(device: string, upload: WaitingUpload): void {
    const uploads = this.#ofDevice.get(device);
    if (uploads === undefined) this.#ofDevice.set(device, [upload]);
    else uploads.push(upload);
    this.#bytes += announcementBytes(upload.accepted);
  }

  /** Removes and returns the first one of a device that matches. */
  take(device: string, matches: (accepted: Accepted) => boolean): WaitingUpload | undefined {
    const uploads = this.#ofDevice.get(device) ?? [];
    const position = uploads.findIndex(({ accepted }) => matches(accepted));
    if (position < 0) return undefined;
    const [taken] = uploads.splice(position, 1);
    if (taken !== undefined) this.#bytes -= announcementBytes(taken.accepted);
    if (uploads.length === 0) this.#ofDevice.delete(device);
    return taken;
  }

  /** Forgets all of a device. */
  drop(device: string): void {
    for (const { accepted } of this.#ofDevice.get(device) ?? []) this.#bytes -= announcementBytes(accepted);
    this.#ofDevice.delete(device);
  }

  clear(): void {
    this.#ofDevice.clear();
    this.#bytes = 0;
  }
}
