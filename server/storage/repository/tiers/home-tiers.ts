/** The storage tiers of a home: folders that are cheap to keep and dear to read, for all its fleets. */
import { isAbsolute, join, relative, sep } from "node:path";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { tierUnreachable, type Tier } from "../../../../shared/objects/tiers/tier-files.js";
import type { Clock, Files, Random } from "../../../../shared/ports.js";
import { isName } from "../../../../shared/wire/topics.js";
import { GuardedTier } from "./guarded-tier.js";
import {
  identityName,
  newIdentifier,
  readIdentity,
  readTiersFile,
  writeIdentity,
  writeTiersFile,
  type KnownTier,
  type TiersFile,
} from "./tiers-file.js";

export interface TierState {
  readonly name: string;
  readonly folder: string;
  readonly addedAtMs: number;
  /** The error that its use would give; undefined where it can be used now. */
  readonly error?: StemmaError;
  /** The free bytes of its disk where it can be used, and the low files of all fleets. */
  readonly freeBytes?: number;
  readonly files?: number;
  readonly bytes?: number;
}

export interface HomeTiersPorts {
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
}

export class HomeTiers {
  readonly #home: string;
  readonly #ports: HomeTiersPorts;
  #content: TiersFile | undefined;
  #guards: readonly GuardedTier[];
  /** The tiers by fleet, so that a store gets the same objects each time. */
  readonly #ofFleet = new Map<string, readonly Tier[]>();

  constructor(home: string, ports: HomeTiersPorts, content: TiersFile | undefined) {
    this.#home = home;
    this.#ports = ports;
    this.#content = content;
    this.#guards = (content?.tiers ?? []).map((known) => new GuardedTier(known, ports));
  }

  get count(): number {
    return this.#guards.length;
  }

  /** The tiers as a fleet's store uses them. */
  of(fleet: string): readonly Tier[] {
    let tiers = this.#ofFleet.get(fleet);
    if (tiers === undefined) {
      tiers = this.#guards.map((guard) => ({
        name: guard.known.name,
        files: guard.filesIn(join(guard.known.folder, "fleets", fleet)),
      }));
      this.#ofFleet.set(fleet, tiers);
    }
    return tiers;
  }

  /** @throws NOT_FOUND */
  guard(name: string): GuardedTier {
    const found = this.#guards.find(({ known }) => known.name === name);
    if (found === undefined)
      throw new StemmaError(
        "NOT_FOUND",
        this.#guards.length === 0
          ? `This home has no storage tier ${name}, nor any other. Add one with \`stemma storage tier add ${name} FOLDER\`.`
          : `This home has no storage tier ${name}; it has ${this.#guards.map(({ known }) => known.name).join(", ")}. Name one of these.`,
        { tier: name },
      );
    return found;
  }

  /** One tier as a fleet's store uses it. @throws NOT_FOUND */
  tierOf(fleet: string, name: string): Tier {
    const { known } = this.guard(name);
    return this.of(fleet).find((tier) => tier.name === known.name) as Tier;
  }

  /** @throws NAME_INVALID, TIER_INVALID, FILE_FAILED */
  async add(name: string, folder: string): Promise<TierState> {
    const { files, clock, random } = this.#ports;
    if (!isName(name))
      throw new StemmaError(
        "NAME_INVALID",
        `${JSON.stringify(name)} is not a name for a tier: use letters, digits, ".", "_" and "-", at most 64.`,
      );
    if (!isAbsolute(folder))
      throw invalid(`The folder ${folder} is relative. Name it from the root.`, folder);
    if (this.#guards.some(({ known }) => known.name === name))
      throw invalid(
        `This home has a tier ${name} already. Choose another name, or remove that one with \`stemma storage tier rm ${name}\`.`,
        folder,
      );
    if (isInside(folder, this.#home) || isInside(this.#home, folder))
      throw invalid(
        `${folder} and this home are inside each other. Choose a folder on another disk.`,
        folder,
      );
    if ((await files.stat(folder))?.kind !== "folder")
      throw invalid(
        `${folder} is not a folder. Mount its disk, or make it, then try again: Stemma does not make it, because a mount point that is empty looks the same.`,
        folder,
      );
    const home = this.#content?.home ?? newIdentifier(random);
    const id = await this.#idOf(folder, home);
    const known: KnownTier = { name, folder, id, addedAtMs: clock.now() };
    await writeIdentity(files, folder, {
      kind: "stemma-tier",
      format: 1,
      id,
      home,
      name,
      homePath: this.#home,
    });
    await this.#set({
      kind: "stemma-tiers",
      format: 1,
      home,
      tiers: [...(this.#content?.tiers ?? []), known],
    });
    return await stateOf(this.guard(name), this.#ports.files);
  }

  /** The id for a folder that is to become a tier. @throws TIER_INVALID where another home has it */
  async #idOf(folder: string, home: string): Promise<string> {
    const { files, random } = this.#ports;
    const identity = await readIdentity(files, folder);
    if (identity === undefined) {
      const stray = (await files.list(folder)).find((name) => name !== "fleets" && name !== "lost+found");
      if (stray !== undefined)
        throw invalid(`${folder} has other files (${stray}). Choose an empty folder.`, folder);
      return newIdentifier(random);
    }
    if (identity.home !== home)
      throw invalid(
        `${folder} is the tier ${identity.name} of another home, ${identity.homePath}: each would remove the other's files. Choose an empty folder. Where that home is gone for good, delete ${join(folder, identityName)} and try again.`,
        folder,
      );
    const known = this.#guards.find((guard) => guard.known.id === identity.id);
    if (known !== undefined)
      throw invalid(`${folder} is the tier ${known.known.name} of this home already.`, folder);
    return identity.id;
  }

  /** Forgets a tier from which everything was brought back, and removes its identity where it can be reached. */
  async remove(name: string): Promise<void> {
    const guard = this.guard(name);
    const content = this.#content as TiersFile;
    await this.#set({ ...content, tiers: content.tiers.filter((known) => known !== guard.known) });
    await guard
      .use((folder) => this.#leave(folder))
      .catch((error: unknown) => {
        if (!isStemmaError(error)) throw error;
      });
  }

  /** Removes what the tier left in its folder, but no file that another fleet's store may need. */
  async #leave(folder: string): Promise<void> {
    const { files } = this.#ports;
    const fleets = join(folder, "fleets");
    for (const name of await files.list(fleets))
      if ((await files.list(join(fleets, name))).length === 0) await files.remove(join(fleets, name));
    if ((await files.list(fleets)).length === 0) await files.remove(fleets);
    await files.remove(join(folder, identityName));
  }

  async #set(content: TiersFile): Promise<void> {
    await writeTiersFile(this.#ports.files, this.#home, content);
    this.#content = content;
    this.#guards = content.tiers.map(
      (known) =>
        this.#guards.find((guard) => guard.known.id === known.id) ?? new GuardedTier(known, this.#ports),
    );
    this.#ofFleet.clear();
  }

  async states(): Promise<readonly TierState[]> {
    return await Promise.all(this.#guards.map((guard) => stateOf(guard, this.#ports.files)));
  }

  /** The tiers that cannot be used now, or do not answer in time. */
  async unreachable(
    withinMs: number,
  ): Promise<readonly { readonly tier: string; readonly error: StemmaError }[]> {
    const found: { tier: string; error: StemmaError }[] = [];
    const ask = async (guard: GuardedTier): Promise<void> => {
      const tier = guard.known.name;
      let cancel = (): void => undefined;
      const late = new Promise<never>((_, reject) => {
        cancel = this.#ports.clock.after(withinMs, () => {
          reject(tierUnreachable(tier, `did not answer within ${withinMs} ms`));
        });
      });
      try {
        await Promise.race([guard.check(), late]);
      } catch (error) {
        if (!isStemmaError(error)) throw error;
        found.push({ tier, error });
      } finally {
        cancel();
      }
    };
    await Promise.all(this.#guards.map(ask));
    return found;
  }
}

export async function openHomeTiers(home: string, ports: HomeTiersPorts): Promise<HomeTiers> {
  return new HomeTiers(home, ports, await readTiersFile(ports.files, home));
}

async function stateOf(guard: GuardedTier, files: Files): Promise<TierState> {
  const { name, folder, addedAtMs } = guard.known;
  try {
    const freeBytes = await guard.freeBytes();
    const fleets = await guard.use(async () => (await files.list(join(folder, "fleets"))).filter(isName));
    let count = 0;
    let bytes = 0;
    for (const fleet of fleets)
      for (const file of await guard.filesIn(join(folder, "fleets", fleet)).list()) {
        count++;
        bytes += file.bytes;
      }
    return { name, folder, addedAtMs, freeBytes, files: count, bytes };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return { name, folder, addedAtMs, error };
  }
}

function isInside(path: string, folder: string): boolean {
  const inside = relative(folder, path);
  return inside === "" || (inside !== ".." && !inside.startsWith(`..${sep}`) && !isAbsolute(inside));
}

function invalid(message: string, folder: string): StemmaError {
  return new StemmaError("TIER_INVALID", message, { folder });
}
