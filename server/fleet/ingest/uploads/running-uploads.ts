/** The uploads that are received now, by version and by device. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { slowLinkBudget } from "../../../../shared/wire/transfer/run-receiver.js";
import type { WindowBudget } from "../../../../shared/wire/transfer/window-budget.js";
import type { IncomingUpload } from "./incoming-upload.js";

interface UploadsOfDevice {
  readonly uploads: Set<IncomingUpload>;
  readonly slowBudget: WindowBudget;
}

export class RunningUploads {
  readonly #byVersion = new Map<Hash, IncomingUpload>();
  readonly #byDevice = new Map<string, UploadsOfDevice>();

  /** @param blockBytes of a block, as devices are asked for */
  constructor(private readonly blockBytes: number) {}

  get count(): number {
    return this.#byVersion.size;
  }
  countOf(device: string): number {
    return this.#byDevice.get(device)?.uploads.size ?? 0;
  }
  all(): Iterable<IncomingUpload> {
    return this.#byVersion.values();
  }
  of(device: string): Iterable<IncomingUpload> {
    return this.#byDevice.get(device)?.uploads ?? [];
  }
  get(versionId: Hash): IncomingUpload | undefined {
    return this.#byVersion.get(versionId);
  }
  has(versionId: Hash): boolean {
    return this.#byVersion.has(versionId);
  }
  byTransfer(device: string, transfer: string): IncomingUpload | undefined {
    for (const upload of this.of(device)) if (upload.transfer === transfer) return upload;
    return undefined;
  }

  /** Returns the window that all uploads of the device share while its link is slow. */
  slowBudgetOf(device: string): WindowBudget {
    return this.#ofDevice(device).slowBudget;
  }
  add(upload: IncomingUpload): void {
    this.#byVersion.set(upload.versionId, upload);
    this.#ofDevice(upload.device).uploads.add(upload);
  }
  remove({ versionId, device }: IncomingUpload): void {
    const upload = this.#byVersion.get(versionId);
    const ofDevice = this.#byDevice.get(device);
    if (upload === undefined || ofDevice === undefined) return;
    this.#byVersion.delete(versionId);
    ofDevice.uploads.delete(upload);
    if (ofDevice.uploads.size === 0) this.#byDevice.delete(device);
  }

  #ofDevice(device: string): UploadsOfDevice {
    const known = this.#byDevice.get(device);
    if (known !== undefined) return known;
    const created = { uploads: new Set<IncomingUpload>(), slowBudget: slowLinkBudget(this.blockBytes) };
    this.#byDevice.set(device, created);
    return created;
  }
}
