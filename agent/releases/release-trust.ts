/**
 * Keeps durably what this device trusts of its fleet's releases, and which versions it may therefore install.
 * The pinned root comes from the device's owner (`stemma agent trust`, or the enrolment at its first use); a
 * server cannot change it, nor weaken what was pinned. Time is what this device believes of its servers and its owner
 * (agent/identity/device-time.ts), never its own clock. (docs/releases.md)
 */
import { join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { SaveRecord } from "../../shared/model/model.js";
import type { Files } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import {
  releasesOf,
  requireManifestOf,
  revocationOf,
  verifyManifest,
} from "../../shared/trust/releases/manifest.js";
import type { Root } from "../../shared/trust/releases/metadata.js";
import { parseOwnerTime, statedTime } from "../../shared/trust/releases/owner-time.js";
import { ownerTimeInvalid } from "../../shared/trust/releases/release-errors.js";
import { SetCollector } from "../../shared/trust/releases/release-set.js";
import { freshTargets, updateReleases } from "../../shared/trust/releases/trusted-releases.js";
import type { Birth, Offer, ReleasePart } from "../../shared/wire/messages.js";
import type { OwnerTime } from "../identity/learned-time.js";
import { OwnVersions } from "./own-versions.js";
import { notReleased, otherPipeline, revoked } from "./release-errors.js";
import { loadTrusted, saveTrusted, type TrustedFile } from "./trusted-file.js";
import type { ReleasePin, ReleasePolicy } from "./release-pin.js";

/** `root`: the newest that this device trusts; undefined: it has none. */
export interface RestoreOwner {
  readonly fleet: string;
  readonly root: Root | undefined;
}

export interface ReleaseTrustOptions {
  readonly files: Files;
  readonly home: string;
  /** The root and policy that the device pinned; undefined: none. */
  readonly pin: ReleasePin | undefined;
  readonly policy: ReleasePolicy;
  /** The time that this device believes; milliseconds since 1970. */
  nowMs(): number;
  onEvent(name: string, text: string): void;
}

/** A version that is to be installed. */
export interface Candidate {
  readonly versionId: Hash;
  /** True if this device trained or saved it. */
  readonly isOwn: boolean;
}

/** Rejects with what `check` throws. */
function attempt(check: () => void): Promise<void> {
  return new Promise((resolve) => {
    check();
    resolve();
  });
}

export class ReleaseTrust {
  readonly #collector = new SetCollector();
  private constructor(
    private readonly options: ReleaseTrustOptions,
    private readonly own: OwnVersions,
    private file: TrustedFile | undefined,
  ) {}

  /**
   * Opens the trusted releases; after a crash or with a damaged disk they fall back to the pinned root, and
   * the server sends the rest again.
   */
  static async open(options: ReleaseTrustOptions): Promise<ReleaseTrust> {
    const { files, home, pin } = options;
    const folder = join(home, "releases");
    const own = await OwnVersions.open(files, folder);
    const loaded = pin && (await loadTrusted(files, folder, pin));
    if (loaded?.damage !== undefined)
      options.onEvent(
        "releases-damaged",
        `${loaded.damage}; this device begins again at the root that it pinned`,
      );
    return new ReleaseTrust(options, own, loaded?.file);
  }

  get policy(): ReleasePolicy {
    return this.options.policy;
  }

  /** The parts of a birth that concern releases. */
  birth(): Pick<Birth, "releaseSet" | "releasePolicy"> {
    if (this.policy === "off") return {};
    return { releaseSet: this.file?.set, releasePolicy: this.policy };
  }

  /** A session starts: parts of the one before do not count. */
  opened(): void {
    this.#collector.clear();
  }

  /**
   * Takes a part of the metadata; true where a set is complete and changed what is trusted.
   * @throws RELEASE_METADATA_INVALID, RELEASE_ROLLED_BACK, RELEASE_EXPIRED; what was proven before that is kept
   */
  async receive(part: ReleasePart): Promise<boolean> {
    const { file } = this;
    if (file === undefined || this.policy === "off") return false;
    const received = this.#collector.take(part);
    if (received === undefined) return false;
    const { trusted, error } = updateReleases(file.trusted, received.set, this.options.nowMs());
    await this.#keep({ ...file, trusted, set: error === undefined ? received.id : undefined });
    if (error !== undefined) throw error;
    return true;
  }

  /**
   * Requires that a version may be installed, by what is trusted now.
   * @throws RELEASE_REVOKED, RELEASE_REQUIRED, RELEASE_EXPIRED
   */
  requireInstallable({ versionId, isOwn }: Candidate): Promise<void> {
    const what = `the version ${versionId.slice(0, 12)}`;
    const rule = "installs only released versions and its own";
    return attempt(() => {
      this.#requireReleased(versionId, what, rule, isOwn || this.own.has(versionId));
    });
  }

  /** @param isOwn a release is not needed, and only that it was revoked counts */
  #requireReleased(subject: Hash, what: string, rule: string, isOwn = false): void {
    if (this.policy === "off") return;
    const targets = this.file?.trusted.targets?.signed;
    const because = targets && revocationOf(targets, subject);
    if (because !== undefined) throw revoked(what, because, subject);
    if (isOwn || this.policy === "accepted") return;
    const required = (why: string): StemmaError => notReleased(rule, what, why, subject);
    if (this.file === undefined)
      throw required("it has no root of releases. Give it one with `stemma agent trust FILE` on the device");
    const fresh = freshTargets(this.file.trusted, this.options.nowMs()).signed;
    if (releasesOf(fresh, subject).length === 0)
      throw required(
        `the fleet's owner has not signed it (targets version ${fresh.version}). Release it with ` +
          "`stemma release create`",
      );
  }

  /**
   * Requires as `requireInstallable` for an offered version; where it brings a manifest, that is the signed
   * one and of this version, and names the input pipeline that is offered with it.
   * @returns the pipeline that may be installed: the server's word for one is enough only where it is for a version
   * @throws RELEASE_MISMATCH, RELEASE_UNKNOWN too
   */
  async requireOffered(
    candidate: Candidate,
    record: SaveRecord,
    { release, pipeline }: Pick<Offer, "release" | "pipeline">,
  ): Promise<Hash | undefined> {
    await this.requireInstallable(candidate);
    const { versionId } = candidate;
    const needsNone = candidate.isOwn || this.own.has(versionId);
    if (this.policy === "off" || this.file === undefined || release === undefined || needsNone)
      return this.policy === "required" ? undefined : pipeline?.id;
    const { name } = release;
    const targets = freshTargets(this.file.trusted, this.options.nowMs()).signed;
    const manifest = verifyManifest(targets, name, release.manifest);
    requireManifestOf(manifest, name, { versionId, record });
    if (pipeline !== undefined && pipeline.id !== manifest.pipeline) throw otherPipeline(name);
    return pipeline?.id;
  }

  /** Returns the owner whose signature a restore of the server needs, where this device demands releases. */
  restoreOwner(fleet: string): RestoreOwner | undefined {
    if (this.policy !== "required") return undefined;
    return { fleet, root: this.file?.trusted.root.signed };
  }

  /** The time that the fleet's owner states, by the keys of the newest root here. @throws RELEASE_METADATA_INVALID */
  ownerTime(fleet: string, text: string): OwnerTime {
    const root = this.file?.trusted.root.signed;
    if (root === undefined)
      throw ownerTimeInvalid(
        "this device has pinned no root of releases, so it does not know its owner's keys. Give it one with `stemma agent trust FILE`, or enrol it again",
      );
    return statedTime({ root, fleet }, parseOwnerTime(text));
  }

  /**
   * Requires that a recipe of the fleet's own may be run, by what is trusted now: it is code, so it is asked each time.
   * @throws RELEASE_REVOKED, RELEASE_REQUIRED, RELEASE_EXPIRED
   */
  requireRecipe(recipe: Hash): Promise<void> {
    return attempt(() => {
      this.#requireReleased(recipe, `the recipe ${recipe.slice(0, 12)}`, "runs only released recipes");
    });
  }

  /** Remembers versions that this device made, before it forgets them: it may be given them again. */
  async noteOwn(versionIds: readonly Hash[]): Promise<void> {
    await this.own.add(versionIds);
  }

  /** The releases for the agent's status. */
  get status(): ReleaseStatus {
    const { root, targets, timestamp } = this.file?.trusted ?? {};
    return {
      policy: this.policy,
      root: root?.signed.version ?? null,
      targets: targets?.signed.version ?? null,
      expires: timestamp?.signed.expires ?? null,
    };
  }

  async #keep(file: TrustedFile): Promise<void> {
    await saveTrusted(this.options.files, join(this.options.home, "releases"), file);
    this.file = file;
  }
}

export interface ReleaseStatus {
  readonly policy: ReleasePolicy;
  /** Versions of the metadata that the device trusts; null: none. */
  readonly root: number | null;
  readonly targets: number | null;
  readonly expires: string | null;
}
