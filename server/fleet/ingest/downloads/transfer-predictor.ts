/**
 * Predicts how many bytes a version takes to each device. That is the tensors that the device provably lacks,
 * coded against what it provably has, as its agent would ask for them. Devices that have the same share one
 * prediction. A device may have deleted a version, or have it from elsewhere: then it fetches more, or less.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Files } from "../../../../shared/ports.js";
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  decideDownloadCoding,
  prefersLowRank,
  type CodingEstimate,
} from "../../../../shared/wire/coding/decide-coding.js";
import { codecFormat, firstCodecFormat } from "../../../../shared/wire/coding/encodings.js";
import type { HeldVersion } from "../../../../shared/wire/coding/references.js";
import { maxReferences } from "../../../../shared/wire/limits.js";
import type { PredictedBytes } from "../../../services/context/operations-context.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { CodedDownloads } from "./coded-downloads.js";
import { chooseCoding, type CodingChoice } from "./coding-choice.js";
import { heldVersion, tensorsOf } from "./held-versions.js";

export interface TransferPredictorParts {
  readonly repository: FleetRepository;
  readonly codedDownloads: Pick<CodedDownloads, "codedLength">;
  readonly files: Pick<Files, "stat" | "read">;
  /** True if this server codes models for devices. */
  readonly coding: boolean;
  /** Folder of the profiles that come with Stemma; absent: that of this release. */
  readonly profilesFolder?: string;
}

interface DeviceClass {
  readonly link: CodingEstimate["link"];
  readonly keepLast: number;
}

/** A stream that one or several devices would fetch. */
interface Wanted {
  readonly tensors: readonly Hash[];
  readonly rawBytes: number;
  readonly against: CodingChoice;
  readonly link: CodingEstimate["link"];
}

/** Streams of one prediction that are coded to learn their length; of further ones the length is estimated. */
const maxCoded = 16;
const ownFolder = fileURLToPath(new URL("../../../../firmware-profiles/", import.meta.url));
/** A profile of the owner is on the device only. */
const unknownClass: DeviceClass = {
  link: { coding: "auto", metered: false, bytesPerSecond: null },
  keepLast: 2,
};

export class TransferPredictor {
  readonly #classes = new Map<string, Promise<DeviceClass>>();
  constructor(private readonly parts: TransferPredictorParts) {}

  /** Predicts bytes by device, in the order in which they are named. @throws OBJECT_MISSING */
  async predict(
    summary: VersionSummary,
    line: string,
    devices: readonly string[],
  ): Promise<ReadonlyMap<string, PredictedBytes>> {
    const groups = new Map<string, { readonly wanted: Wanted; readonly devices: string[] }>();
    const held = new Map<Hash, Promise<HeldVersion | undefined>>();
    for (const device of devices) {
      const wanted = await this.#wanted(summary, { device, line }, held);
      const key = JSON.stringify([wanted.against, wanted.tensors.length, wanted.rawBytes, wanted.link]);
      const group = groups.get(key);
      if (group === undefined) groups.set(key, { wanted, devices: [device] });
      else group.devices.push(device);
    }
    const found = new Map<string, PredictedBytes>();
    const shares: number[] = [];
    // The versions that most devices fetch come first, so that estimates follow from what is usual.
    for (const { wanted, devices: alike } of [...groups.values()].sort(
      (a, b) => b.devices.length - a.devices.length,
    )) {
      const isEstimated = this.#isCoded(wanted) && shares.length >= maxCoded;
      const bytes = isEstimated
        ? Math.round(wanted.rawBytes * medianOf(shares))
        : await this.#bytesOf(summary, wanted);
      if (this.#isCoded(wanted) && !isEstimated) shares.push(bytes / wanted.rawBytes);
      for (const device of alike) found.set(device, { bytes, isEstimated, metered: wanted.link.metered });
    }
    return found;
  }

  #isCoded({ link, rawBytes, tensors, against }: Wanted): boolean {
    if (!this.parts.coding || rawBytes === 0) return false;
    return decideDownloadCoding(link, rawBytes, tensors.length, against.references.length > 0).coded;
  }

  async #bytesOf(summary: VersionSummary, wanted: Wanted): Promise<number> {
    if (!this.#isCoded(wanted)) return wanted.rawBytes;
    const { tensors, against, link } = wanted;
    const format = prefersLowRank(link) ? codecFormat : firstCodecFormat;
    return await this.parts.codedDownloads.codedLength(summary, { tensors, against, format });
  }

  /** Returns what a device wants, as agent/offers asks for it. */
  async #wanted(
    summary: VersionSummary,
    { device, line }: { readonly device: string; readonly line: string },
    known: Map<Hash, Promise<HeldVersion | undefined>>,
  ): Promise<Wanted> {
    const { repository } = this.parts;
    const found = repository.device(device);
    const { link, keepLast } = await this.#classOf(found?.profile ?? "");
    const active = found?.active[line]?.versionId;
    const ran = repository.ran(device, line);
    const kept = new Set([...new Set([...ran].reverse())].slice(0, keepLast + 1));
    if (active !== undefined) kept.add(active);
    const held = new Map<Hash, HeldVersion>();
    const add = async (ids: readonly (Hash | undefined)[]): Promise<void> => {
      for (const id of ids) {
        if (id === undefined || held.has(id) || held.size >= maxReferences) continue;
        if (!kept.has(id) || !repository.hasHad(device, id)) continue;
        const reading = known.get(id) ?? heldVersion(repository, id);
        // What the device made itself no other has: the trees of a whole fleet would be in memory.
        if (!repository.hasSent(device, id)) known.set(id, reading);
        const version = await reading;
        if (version !== undefined) held.set(id, version);
      }
    };
    await add(summary.record.bases);
    await add([active]);
    await add([...held.values()].flatMap(({ bases }) => bases));
    const has = tensorsOf([...held.values()]);
    const lacking = new Map<Hash, number>();
    for (const { tensor, dtype, shape } of await repository.leaves(summary.versionId))
      if (!has.has(tensor)) lacking.set(tensor, tensorByteLength(dtype, shape));
    return {
      tensors: [...lacking.keys()],
      rawBytes: [...lacking.values()].reduce((sum, bytes) => sum + bytes, 0),
      against: chooseCoding(summary.record.bases, [...held.values()], (id) => repository.hasSent(device, id)),
      link,
    };
  }

  #classOf(profile: string): Promise<DeviceClass> {
    const reading = this.#classes.get(profile) ?? this.#readClass(profile);
    this.#classes.set(profile, reading);
    return reading;
  }

  async #readClass(profile: string): Promise<DeviceClass> {
    if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(profile)) return unknownClass;
    const path = join(this.parts.profilesFolder ?? ownFolder, `${profile}.json`);
    if ((await this.parts.files.stat(path)) === undefined) return unknownClass;
    const { link, disk } = JSON.parse(new TextDecoder().decode(await this.parts.files.read(path))) as {
      link: Partial<CodingEstimate["link"]>;
      disk: { keepLast: number };
    };
    return { link: { ...unknownClass.link, ...link }, keepLast: disk.keepLast };
  }
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 1;
}
