/**
 * The claim of a process on a home: what it says of the process and of where that runs, and how it is written
 * and read. Claims of earlier versions lack members; what they lack is unknown. (docs/formats.md, "Home")
 */
import { createHash } from "node:crypto";
import { readlink, readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { startOfProcess } from "./process-start.js";

/** The process that holds a home. A text is "" where the system does not say it. */
export interface LockHolder {
  readonly pid: number;
  /** The kernel's start time of the process, so that another process with a reused pid is not mistaken for it. */
  readonly started: string;
  /** Host name, for people: containers and machines may share one. */
  readonly host: string;
  /** The kernel's boot id. */
  readonly boot: string;
  readonly processNamespace: string;
  readonly command: string;
  readonly sinceMs: number;
  /** Name of the socket in the lock folder that the holder listens on; "" where it could make none. */
  readonly socket: string;
  /** The machine's id; "" where it has none. */
  readonly machine?: string | undefined;
  /** Start times are counted per time namespace. */
  readonly timeNamespace?: string | undefined;
  /** The lock folder's device number on this boot, which tells one mount from another. */
  readonly device?: string | undefined;
  /** The holder renews the claim, because machines may share the file system. */
  readonly renewed?: boolean | undefined;
}

export type ClaimContent =
  | { readonly content: "complete"; readonly holder: LockHolder }
  | { readonly content: "empty" | "damaged"; readonly holder: undefined };

const maxClaimBytes = 64 * 1024;

function checkOf(members: string): string {
  return createHash("sha256").update(members).digest("hex").slice(0, 16);
}

/** Writes a claim as JSON text whose last member, `check`, is the start of the SHA-256 of the others. */
export function encodeClaim(holder: LockHolder): string {
  const members = JSON.stringify(holder);
  return `${members.slice(0, -1)},"check":"${checkOf(members)}"}`;
}

function isHolder(value: Record<string, unknown>): boolean {
  const isText = (field: string): boolean => typeof value[field] === "string";
  const { pid, sinceMs, socket } = value;
  return (
    ["started", "host", "boot", "processNamespace", "command", "socket"].every(isText) &&
    ["machine", "timeNamespace", "device"].every((field) => value[field] === undefined || isText(field)) &&
    ["boolean", "undefined"].includes(typeof value["renewed"]) &&
    Number.isSafeInteger(pid) &&
    (pid as number) > 0 &&
    typeof sinceMs === "number" &&
    Number.isFinite(new Date(sinceMs).getTime()) &&
    !/[/\0]/.test(socket as string)
  );
}

/** Reads a claim, also one of an earlier version, which has no `check`. */
export function decodeClaim(bytes: Uint8Array): ClaimContent {
  if (bytes.every((byte) => byte === 0)) return { content: "empty", holder: undefined };
  const damaged = { content: "damaged", holder: undefined } as const;
  if (bytes.length > maxClaimBytes) return damaged;
  try {
    const text = Buffer.from(bytes).toString("utf8");
    const { check, ...members } = JSON.parse(text) as Record<string, unknown>;
    if (!isHolder(members)) return damaged;
    if (check !== undefined && check !== checkOf(JSON.stringify(members))) return damaged;
    return { content: "complete", holder: members as unknown as LockHolder };
  } catch {
    return damaged;
  }
}

async function textOf(path: string): Promise<string> {
  return (await readFile(path, "utf8").catch(() => "")).trim();
}

async function linkOf(path: string): Promise<string> {
  return await readlink(path).catch(() => "");
}

/** Machine ids are 32 hexadecimal digits; an image before its first start has other text, or none. */
async function machineId(): Promise<string> {
  for (const path of ["/etc/machine-id", "/var/lib/dbus/machine-id"]) {
    const text = await textOf(path);
    if (/^[0-9a-f]{32}$/.test(text) && !/^0+$/.test(text)) return text;
  }
  return "";
}

/** Describes this process for its claim. */
export async function describeThisProcess(
  place: Pick<LockHolder, "socket" | "device" | "renewed">,
): Promise<LockHolder> {
  return {
    pid: process.pid,
    started: await startOfProcess("self"),
    host: hostname(),
    boot: await textOf("/proc/sys/kernel/random/boot_id"),
    processNamespace: await linkOf("/proc/self/ns/pid"),
    command: process.argv.slice(1).join(" ").slice(0, 200) || process.title,
    sinceMs: Date.now(),
    socket: place.socket,
    machine: await machineId(),
    timeNamespace: await linkOf("/proc/self/ns/time"),
    device: place.device,
    renewed: place.renewed,
  };
}
