/**
 * Declares that a home was put back to an older copy by other means than `stemma storage restore`. Such is a
 * snapshot of the disk or of the virtual machine, or a copy of the folder. Devices that have seen what is
 * missing do not believe the server otherwise.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { FleetRepository } from "./fleet-repository.js";
import { requireFleet, type Home } from "./home.js";
import { openRepository } from "./open-repository.js";
import { restoredFact } from "./restored-fact.js";
import { counted } from "../../../shared/printable.js";

export interface DeclaredRestore {
  readonly fleet: string;
  /** Facts before it are certainly in every device's history. */
  readonly position: number;
  /** Facts in the journal, without the declaration. */
  readonly length: number;
  /** The times of the last fact before `position`, and of the first one after; null where there is none. */
  readonly beforeMs: number | null;
  readonly afterMs: number | null;
  /** Devices enrolled after `position`, whose generations a lost enrolment may have had too. */
  readonly enrolledSince: readonly string[];
  readonly declared: boolean;
  /** The fleet has releases: devices that demand them wait for its owner's signature. */
  readonly isSigned: boolean;
}

/** Exactly one of both. */
export interface DeclareOptions {
  /** Facts that the copy certainly had. */
  readonly position?: number | undefined;
  /** The time when the copy was made, milliseconds since 1970. */
  readonly copiedAtMs?: number | undefined;
  readonly dryRun?: boolean | undefined;
  /** The caller who declares it. */
  readonly caller?: Caller | undefined;
}

/** @throws NOT_FOUND for a fleet that the home does not have, USAGE, JOURNAL_CORRUPT, DISK_FULL */
export async function declareRestore(
  home: Home,
  fleet: string,
  { position, copiedAtMs, dryRun = false, caller }: DeclareOptions,
): Promise<DeclaredRestore> {
  if ((position === undefined) === (copiedAtMs === undefined))
    throw new StemmaError("USAGE", "Give either --position or --copied-at, not both.");
  await requireFleet(home, fleet);
  const repository = await openRepository(home, fleet);
  try {
    const { length } = repository.journal.head();
    if (position !== undefined && (!Number.isInteger(position) || position < 0 || position > length))
      throw new StemmaError(
        "USAGE",
        `The journal of ${fleet} has ${counted(length, "fact")}, so the copy cannot have had ${position}. Give ` +
          "the number of facts that the copy had, or a smaller one.",
        { length },
      );
    const fork = await findFork(repository, position, copiedAtMs ?? 0);
    if (!dryRun)
      await repository.append(
        restoredFact(home.ports, { position: fork.position, lostFrom: fork.position, by: caller }),
      );
    const isSigned = (await repository.releases()) !== undefined;
    return { fleet, ...fork, length, declared: !dryRun, isSigned };
  } finally {
    await repository.close();
  }
}

type Fork = Pick<DeclaredRestore, "position" | "beforeMs" | "afterMs" | "enrolledSince">;

/** `position`, or that of the first fact after the copy was made; and what the facts around and after it are. */
async function findFork(
  { journal }: Pick<FleetRepository, "journal">,
  position: number | undefined,
  copiedAtMs: number,
): Promise<Fork> {
  let length = 0;
  let beforeMs: number | null = null;
  let fork: Omit<Fork, "enrolledSince"> | undefined;
  const enrolledSince = new Set<string>();
  for await (const { position: at, fact } of journal.entries()) {
    const isAfter = position === undefined ? fact.atMs > copiedAtMs : at >= position;
    if (isAfter) fork ??= { position: at, beforeMs, afterMs: fact.atMs };
    if (fork !== undefined && fact.type === "enrolled") enrolledSince.add(fact.device);
    beforeMs = fact.atMs;
    length = at + 1;
  }
  fork ??= { position: length, beforeMs, afterMs: null };
  return { ...fork, enrolledSince: [...enrolledSince] };
}
