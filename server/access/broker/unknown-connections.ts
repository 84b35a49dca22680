/**
 * Decides which connections may stay open before their peers have authenticated themselves. Each address may hold a
 * bounded number, and a part of all places is reserved for addresses from which devices were authenticated before. When
 * no place is free, the connection that has waited longest without a complete request is closed: at its own address
 * where that one is full, otherwise at the address that holds most. So one address cannot keep others out, and silent
 * connections cannot keep their own address out. Used for MQTT and for HTTP; knows neither.
 */
import { isIPv6 } from "node:net";

export interface UnknownConnectionLimits {
  readonly maxUnknownConnections: number;
  readonly maxUnknownConnectionsPerAddress: number;
  /** The number of maxUnknownConnections that only addresses of known devices may use. */
  readonly reservedForKnownAddresses: number;
}

export interface UnknownConnection {
  readonly address: string;
  /**
   * The progress of its request to be admitted. Silent connections are closed first; one with a complete
   * request is about to be judged and is never closed.
   */
  progress(): "silent" | "partial" | "complete";
  /** Closes it, because another connection needs its place. */
  evict(): void;
}

/** Addresses of known devices that are remembered. */
const maxKnownAddresses = 100_000;

export class UnknownConnections {
  readonly #limits: UnknownConnectionLimits;
  /** The connections by address group, the oldest connection of each first. */
  readonly #groups = new Map<string, Set<UnknownConnection>>();
  /** Address groups of known devices; the one seen last is last. */
  readonly #knownGroups = new Set<string>();

  constructor(limits: UnknownConnectionLimits) {
    this.#limits = limits;
  }

  /** Adds a connection. Returns why it is refused; undefined where it is admitted. */
  admit(connection: UnknownConnection): string | undefined {
    const { maxUnknownConnections, maxUnknownConnectionsPerAddress, reservedForKnownAddresses } =
      this.#limits;
    const name = addressGroupOf(connection.address);
    const isKnown = this.#knownGroups.has(name);
    const group = this.#groups.get(name) ?? new Set();
    if (group.size >= maxUnknownConnectionsPerAddress && !this.#evictOneOf(group))
      return `${maxUnknownConnectionsPerAddress} connections of this address have not identified themselves yet`;
    const max = Math.max(1, maxUnknownConnections - (isKnown ? 0 : reservedForKnownAddresses));
    if (this.#count(isKnown) >= max && !this.#evictFromFullest(isKnown))
      return `${max} connections have not identified themselves yet`;
    this.#groups.set(name, group);
    group.add(connection);
    return undefined;
  }

  /** The connection is closed, or its peer is known now. */
  remove(connection: UnknownConnection): void {
    const name = addressGroupOf(connection.address);
    const group = this.#groups.get(name);
    group?.delete(connection);
    if (group?.size === 0) this.#groups.delete(name);
  }

  /** A peer at this address was authenticated. */
  recognise(address: string): void {
    const name = addressGroupOf(address);
    this.#knownGroups.delete(name);
    this.#knownGroups.add(name);
    if (this.#knownGroups.size <= maxKnownAddresses) return;
    for (const oldest of this.#knownGroups) {
      this.#knownGroups.delete(oldest);
      return;
    }
  }

  /** Connections that count against the places: all, or those of unknown addresses only. */
  #count(withKnown: boolean): number {
    let count = 0;
    for (const [name, { size }] of this.#groups) if (withKnown || !this.#knownGroups.has(name)) count += size;
    return count;
  }

  /** Evicts from the fullest address: an unknown one if there is one, for known ones from a known one too. */
  #evictFromFullest(isKnown: boolean): boolean {
    const byFill = [...this.#groups].sort(([, a], [, b]) => b.size - a.size);
    const unknown = byFill.filter(([name]) => !this.#knownGroups.has(name));
    const known = isKnown ? byFill.filter(([name]) => this.#knownGroups.has(name)) : [];
    return [...unknown, ...known].some(([, group]) => this.#evictOneOf(group));
  }

  /**
   * Evicts the oldest silent connection of the older half, else the oldest without a complete request. The newer
   * half is spared, because its silent ones may have sent a request that was not read yet.
   */
  #evictOneOf(group: Set<UnknownConnection>): boolean {
    let chosen: UnknownConnection | undefined;
    let position = 0;
    for (const connection of group) {
      const isOld = position++ < group.size / 2;
      const progress = connection.progress();
      if (progress === "complete") continue;
      const isOldAndSilent = isOld && progress === "silent";
      if (isOldAndSilent || chosen === undefined) chosen = connection;
      if (isOldAndSilent || !isOld) break;
    }
    if (chosen === undefined) return false;
    this.remove(chosen);
    chosen.evict();
    return true;
  }
}

/** A peer with an IPv6 address usually has all 2^64 addresses of its network, so these count as one. */
export function addressGroupOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  return isIPv6(address) ? networkOf(address) : address;
}

/** The first 64 bits of an IPv6 address. */
function networkOf(address: string): string {
  const [head = "", tail] = address.split("%", 1)[0]?.split("::") ?? [];
  const first = head === "" ? [] : head.split(":");
  const last = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros =
    tail === undefined ? [] : new Array<string>(Math.max(0, 8 - first.length - last.length)).fill("0");
  const groups = [...first, ...zeros, ...last].slice(0, 4);
  return groups.map((group) => Number.parseInt(group, 16).toString(16)).join(":");
}
