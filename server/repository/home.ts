/**
 * Stemma's own folder: where fleets, key, lock and run folder lie, and that one process writes it.
 * Knows the layout and nothing of what a fleet holds (open-repository.ts opens those).
 *
 *     format.json             {"kind":"stemma-home","format":1}
 *     lock                    one writer
 *     server-key.json         Ed25519, made with the home; signs journal heads and receipts
 *     run.json                where the run folder is (short, for socket paths under 100 bytes)
 *     fleets/<fleet>/packs    objects      fleets/<fleet>/journal   facts
 */
import type { Clock, Files, Log, Random } from "../../shared/ports.js";

export interface HomePorts {
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly log?: Log;
}

/** Signs with the server's key; the public key is 64 lower-case hex digits (32 raw bytes). */
export interface ServerSigner { readonly publicKey: string; sign(message: Uint8Array): Uint8Array }

/** An opened, locked home. */
export interface Home {
  readonly path: string;
  readonly ports: HomePorts;
  readonly signer: ServerSigner;
  /** Short folder for sockets, private to this user; recorded in run.json. */
  readonly runFolder: string;
  /** Path of the server's local socket, under 100 bytes. */
  readonly socketPath: string;
  fleetFolder(fleet: string): string;
  /** Fleets that exist, sorted. */
  fleets(): Promise<readonly string[]>;
  /** Releases the lock; open repositories must be closed before. */
  close(): Promise<void>;
}

/** The fleet of imports without a server. */
export const localFleet = "local";
