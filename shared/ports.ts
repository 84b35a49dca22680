/**
 * Defines the ports through which the core accesses the outside world: time, randomness, files, log.
 * Implementations live in shared/files and shared/adapters, for tests in test/helpers; pure code takes the
 * ports as parameters and never imports an implementation.
 */

/** Wall and monotonic time. Tests set it by hand. */
export interface Clock {
  /** Milliseconds since 1970 UTC; may jump. */
  now(): number;
  /** Milliseconds of a clock that never jumps; its origin is arbitrary. */
  monotonic(): number;
  /** Calls back once after `delayMs`; the returned function cancels. */
  after(delayMs: number, callback: () => void): () => void;
}

/** Cryptographic randomness (keys, transfer ids, nonces). Training draws from named streams instead. */
export interface Random {
  bytes(count: number): Uint8Array;
}

export type LogFields = Readonly<Record<string, unknown>>;
/** Structured log; `event` is a stable kebab-case name. */
export interface Log {
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
  child(fields: LogFields): Log;
}

export type OpenMode =
  | "read" //       must exist
  | "update" //     must exist, read and write
  | "create" //     must not exist, read and write
  | "append"; //    created when missing; read and write at any position

export interface FileStat {
  readonly kind: "file" | "folder" | "link";
  readonly size: number;
  readonly modifiedMs: number;
}

/**
 * An open file. Positions and lengths in bytes. Every method throws FILE_FAILED or DISK_FULL with the cause.
 */
export interface OpenFile {
  /** Reads up to `target.length` bytes at `position`; returns how many (0 at the end). */
  read(target: Uint8Array, position: number): Promise<number>;
  /** Writes all bytes (loops until done). */
  write(bytes: Uint8Array, position: number): Promise<void>;
  size(): Promise<number>;
  truncate(size: number): Promise<void>;
  /** fsync. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** An open file that is read while the event loop waits. */
export interface FileToReadNow {
  size(): number;
  /** Reads up to `target.length` bytes at `position`; returns how many (0 at the end). */
  read(target: Uint8Array, position: number): number;
  close(): void;
}

/**
 * Files and folders. Paths are absolute. A missing file or folder throws FILE_MISSING; other failures
 * FILE_FAILED or DISK_FULL.
 */
export interface Files {
  open(path: string, mode: OpenMode): Promise<OpenFile>;
  read(path: string): Promise<Uint8Array>;
  stat(path: string): Promise<FileStat | undefined>;
  /** Names in a folder, sorted by UTF-16 code units; [] when the folder is missing. */
  list(path: string): Promise<string[]>;
  /** Creates a folder and its parents. Not durable until the parent folder is synced. */
  makeFolder(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file, link or folder tree; a missing one is not an error. */
  remove(path: string): Promise<void>;
  /** Atomically makes `path` a symbolic link to the relative `target`, replacing what was there. */
  replaceLink(target: string, path: string): Promise<void>;
  readLink(path: string): Promise<string | undefined>;
  /** fsync of a folder: makes the creations, renames and removals in it durable. */
  syncFolder(path: string): Promise<void>;
  /** Bytes free for this user on the file system of `path`. */
  freeBytes(path: string): Promise<number>;
  /** Opens a file that nobody changes any more; absent: indexes stay in memory. */
  readonly openNow?: (path: string) => FileToReadNow;
  /** Set where this process has locked the home that the files are in. */
  readonly writer?: HomeWriter;
}

export type FilesToReadNow = Files & Required<Pick<Files, "openNow">>;

/** The only writer of a home, as the lock knows it. */
export interface HomeWriter {
  /** Checks that the home is still this process's. @throws HOME_TAKEN; FILE_FAILED where that cannot be seen */
  assertHeld(): Promise<void>;
  /** Tells a file from another one that took its path; undefined if there is none. */
  identityOf(path: string): Promise<string | undefined>;
}
