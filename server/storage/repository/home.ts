/**
 * The home: Stemma's own folder with fleets, key, lock and run folder. Only one process at a time writes to
 * it. This file defines the folder's structure; open-repository.ts opens the fleets.
 *
 *     format.json             {"kind":"stemma-home","format":1}
 *     lock                    held by the one process that writes the home
 *     server-key.json         Ed25519, made with the home; signs journal heads and receipts; how it changed since
 *     authority.pem           certificate of the server's own authority, for other programs; made at each start
 *     run.json                the run folder's path (short, for socket paths under 100 bytes)
 *     tiers.json              the storage tiers, where there are any
 *     programs.json           the users' own programs that replays may run, where any was approved
 *     fleets/<fleet>/packs    objects      fleets/<fleet>/journal   facts
 *     fleets/<fleet>/index    the state that follows from them; may be deleted
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { isStemmaError, type StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../../shared/files/make-folder.js";
import type { Clock, Files, Log, Random } from "../../../shared/ports.js";
import type { Environment } from "../../../shared/model/environment.js";
import { parseJson, type Signer } from "../../../shared/trust/keys.js";
import { isName } from "../../../shared/wire/topics.js";
import type { KeptKeyChange } from "../../access/identity/key-changes.js";
import { HoldableKey } from "../../access/identity/server-key-hold.js";
import type { HomeChanges } from "./home-changes.js";
import {
  formatUnreadable,
  homeFormatUnknown,
  noFleet,
  noHome,
  notAHome,
  socketPathTooLong,
} from "./repository-errors.js";
import { checkName } from "./state/naming.js";
import type { MemoryReading } from "./node-memory.js";
import { keyPath, loadOrMakeServerKey, type ServerKey } from "./server-key.js";
import { openHomeTiers, type HomeTiers } from "./tiers/home-tiers.js";

/** The progress of opening a fleet: packs that the table of its objects lacks, then facts that its index lacks. */
export interface OpeningProgress {
  readonly fleet: string;
  /** The packs whose objects are known, of those that are looked at. */
  readonly packs?: { readonly read: number; readonly all: number };
  /** The facts that are part of the state, of all in the journal. */
  readonly facts?: { readonly read: number; readonly all: number };
}

export interface HomePorts {
  readonly files: Files;
  readonly clock: Clock;
  /** Milliseconds since this machine started, its sleep included; absent: the monotonic clock. */
  readonly sinceBootMs?: () => number;
  readonly random: Random;
  /** Facts after which the index of a fleet is written again; Infinity: never. Default 5,000. */
  readonly indexEveryFacts?: number;
  /** A journal notes its state after each 2^level facts. Default 8. */
  readonly journalBlockLevel?: number;
  /** The memory of this process; absent: it is not looked at. */
  readonly memory?: () => MemoryReading;
  readonly log?: Log;
  /** Called while a fleet is opened, at first, after some packs and after each 1,000 facts; ends it by throwing. */
  readonly onOpening?: (progress: OpeningProgress) => void;
  /** The environment of this process; recorded with models that are imported or trained here. */
  readonly environment?: Environment;
  /**
   * Takes the writer's lock of a folder. Absent where no other process can access the files (in memory).
   * @throws HOME_LOCKED
   */
  readonly lock?: (home: string) => Promise<WriterLock>;
  /** The reserve of disk space beside the lock; absent where there is none. */
  readonly reserve?: DiskReserve;
}

/** The lock of a home that this process has. */
export interface WriterLock {
  /** Resolves when another process was found to have the home. */
  readonly lost: Promise<StemmaError>;
  /** Adds to the files what the journal checks before it writes. */
  lockedFiles(files: Files): Files;
  release(): Promise<void>;
}

/** Space that is given up on a full disk, so that work that frees space can write its few bytes. */
export interface DiskReserve {
  /** Gives the reserve up. Returns whether there was one. */
  claim(home: string): Promise<boolean>;
  /** Makes the reserve again if there is none and the disk has space. Never throws. */
  keep(home: string): Promise<void>;
}

export type ServerSigner = Signer;

/** An opened home, locked unless it is only read. */
export interface Home {
  readonly path: string;
  readonly ports: HomePorts;
  /** The server's key: journal heads, receipts and offers are signed with it. */
  readonly signer: HoldableKey;
  /** The changes of that key, oldest first. */
  readonly keyChanges: readonly KeptKeyChange[];
  /** Short folder for sockets, private to this user; recorded in run.json. */
  readonly runFolder: string;
  /** Path of the server's local socket, under 100 bytes. */
  readonly socketPath: string;
  /** Folders for low-order bytes, on other disks. */
  readonly tiers: HomeTiers;
  /** @throws NAME_INVALID */
  fleetFolder(fleet: string): string;
  /** Fleets that exist, sorted. */
  fleets(): Promise<readonly string[]>;
  /** Set where the home is only read, beside whoever writes to it: what has changed in it since. */
  readonly changes?: HomeChanges;
  /** Resolves when another process was found to have the home. */
  readonly lost: Promise<StemmaError>;
  /** Releases the lock. Close open repositories first. */
  close(): Promise<void>;
}

/** @throws NOT_FOUND for a fleet that the home does not have */
export async function requireFleet(home: Pick<Home, "path" | "fleets">, fleet: string): Promise<void> {
  if ((await home.fleets()).includes(fleet)) return;
  throw noFleet(home.path, fleet);
}

export const homeFormat = 1;
const kind = "stemma-home";
const socketName = "server.sock";
/** Longer socket paths are truncated silently by the operating system. */
export const maxSocketPathBytes = 99;

/**
 * Locks and opens a home; creates it where there is none.
 * @throws HOME_LOCKED (another server or command has it open), HOME_FORMAT_UNKNOWN, KEY_INVALID, TIER_INVALID
 */
export async function openHome(path: string, givenPorts: HomePorts): Promise<Home> {
  await makeFolderDurably(givenPorts.files, path);
  // Checked before the lock is taken, so that nothing is written into a folder that is not a home.
  const isNew = await checkFormat(givenPorts.files, path);
  const lock = await givenPorts.lock?.(path);
  const files = lock?.lockedFiles(givenPorts.files) ?? givenPorts.files;
  const ports = { ...givenPorts, files };
  try {
    if (isNew)
      await writeDurably(
        files,
        formatPath(path),
        Buffer.from(`${JSON.stringify({ kind, format: homeFormat })}\n`),
      );
    const key = await loadOrMakeServerKey(files, keyPath(path), ports.random);
    const runFolder = await findRunFolder(ports, path);
    return {
      ...(await homeOf(path, { ports, key, runFolder })),
      lost: lock?.lost ?? new Promise(() => undefined),
      close: async () => {
        await lock?.release();
      },
    };
  } catch (error) {
    await lock?.release();
    throw error;
  }
}

/** The part of a home that is the same whether it is locked or only read. */
export async function homeOf(
  path: string,
  {
    ports,
    key,
    runFolder,
  }: { readonly ports: HomePorts; readonly key: ServerKey; readonly runFolder: string },
): Promise<Omit<Home, "lost" | "close">> {
  return {
    path,
    ports,
    signer: new HoldableKey(key.key),
    keyChanges: key.changes,
    runFolder,
    socketPath: join(runFolder, socketName),
    tiers: await openHomeTiers(path, ports),
    fleetFolder: (fleet) => join(path, "fleets", checkName("fleet", fleet)),
    fleets: async () => (await ports.files.list(join(path, "fleets"))).filter(isName).sort(),
  };
}

function formatPath(home: string): string {
  return join(home, "format.json");
}

/** True if a home was begun in this folder; nothing is written. @throws HOME_FORMAT_UNKNOWN */
export async function hasHome(files: Files, path: string): Promise<boolean> {
  return !(await checkFormat(files, path));
}

/** @throws NOT_FOUND where no home was begun in this folder, HOME_FORMAT_UNKNOWN */
export async function requireHome(files: Files, path: string): Promise<void> {
  if (!(await hasHome(files, path))) throw noHome(path);
}

/** Names of files and folders in a home, except temporary and lock files. */
const homeNames = new Set([
  "format.json",
  "server-key.json",
  "authority.pem",
  "run.json",
  "run",
  "fleets",
  // Settings may be written before the first start.
  "server.json",
  // Those of a modeller's repository (server/cli/repository).
  "repository.json",
  "staging",
]);

/** A name in the folder that does not belong to a home, or undefined. */
export async function findForeignName(files: Files, home: string): Promise<string | undefined> {
  return (await files.list(home)).find(
    (name) => !homeNames.has(name) && !name.startsWith("lock") && !name.endsWith(".tmp"),
  );
}

const formatFile = z.object({ kind: z.literal(kind), format: z.number().int() });

/** True if the home has no format yet. @throws HOME_FORMAT_UNKNOWN */
async function checkFormat(files: Files, home: string): Promise<boolean> {
  if ((await files.stat(formatPath(home))) === undefined) {
    const stray = await findForeignName(files, home);
    if (stray !== undefined) throw notAHome(home, stray);
    return true;
  }
  const parsed = formatFile.safeParse(parseJson(await files.read(formatPath(home))));
  if (!parsed.success) throw formatUnreadable(formatPath(home), home);
  if (parsed.data.format !== homeFormat) throw homeFormatUnknown(home, parsed.data.format, homeFormat);
  return false;
}

/**
 * The run folder that an earlier start recorded; undefined where there is none. Does not need the lock,
 * because commands use it to connect to a running server.
 */
export async function readRunFolder(files: Files, home: string): Promise<string | undefined> {
  try {
    const value = parseJson(await files.read(join(home, "run.json")));
    return z.object({ folder: z.string().max(maxSocketPathBytes) }).safeParse(value).data?.folder;
  } catch (error) {
    if (isStemmaError(error, "FILE_MISSING")) return undefined;
    throw error;
  }
}

/**
 * Returns <home>/run where that is short enough, else a folder below the system's temporary folder. Its name
 * cannot be guessed, so no other user can have created it before. The folder is recorded in run.json, so that
 * commands find it.
 */
async function findRunFolder({ files, random }: HomePorts, home: string): Promise<string> {
  const inside = join(home, "run");
  const recorded = await readRunFolder(files, home);
  const folder = fits(inside)
    ? inside
    : recorded !== undefined && (await files.stat(recorded)) !== undefined
      ? recorded
      : join(tmpdir(), `stemma-${Buffer.from(random.bytes(10)).toString("hex")}`);
  if (!fits(folder)) throw socketPathTooLong(folder, join(folder, socketName), maxSocketPathBytes);
  await files.makeFolder(folder);
  if (recorded !== folder)
    await writeDurably(files, join(home, "run.json"), Buffer.from(`${JSON.stringify({ folder })}\n`));
  return folder;
}

function fits(folder: string): boolean {
  return Buffer.byteLength(join(folder, socketName)) <= maxSocketPathBytes;
}
