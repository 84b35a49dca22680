/**
 * An agent's folder on a device: what is stored where, which device owns it, where its sockets are.
 *
 *     home.json      format, and which device this home belongs to
 *     agent.json     settings (config.ts), optional; enrolment.json unless named elsewhere
 *     session.json   session counter; time.json, the time that the device believes (identity/device-time.ts)
 *     outbox/        journal and packs of models
 *     versions/, current/   model out (current/read-current.ts)
 *     samples/<line>/, inbox/<line>/   samples in
 *     transfers/     downloads under way; work/ a training under way
 *     trials/<line>/ a trial on live inputs
 *     run.json       process and sockets of the running agent
 */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeDurably } from "../../shared/files/durable-write.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Files } from "../../shared/ports.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { maxSocketPathBytes } from "../control/json-line-server.js";
import { parseJsonFile } from "../settings/json-file.js";
import { homeOfAnother, noAgentRuns, notAnAgentsHome, ownerNotNamed, socketNotNamed } from "./home-errors.js";

/** The addresses by which commands find a running agent. */
export interface RunFile {
  readonly pid: number;
  readonly control: string;
  readonly samples: string;
  readonly models: string;
  readonly startedAtMs: number;
  /** The files that the agent was started with, as absolute paths, and its profile; absent where not named. */
  readonly enrolment?: string | undefined;
  readonly config?: string | undefined;
  readonly profile?: string | undefined;
}

/** The folder of downloads under way, and of streams that are coded for an upload. */
export function transfersFolder(home: string): string {
  return join(home, "transfers");
}

/**
 * Makes the home, or checks that it is one of this format and of this device.
 * @throws HOME_FORMAT_UNKNOWN, CONFIG_INVALID
 */
export async function openAgentHome(
  files: Files,
  home: string,
  enrolment: Pick<Enrolment, "fleet" | "device">,
): Promise<void> {
  await makeFolderDurably(files, home);
  const path = join(home, "home.json");
  const own = { format: 1, kind: "stemma-agent-home", fleet: enrolment.fleet, device: enrolment.device };
  if ((await files.stat(path)) === undefined) {
    await writeDurably(files, path, new TextEncoder().encode(`${JSON.stringify(own)}\n`));
    return;
  }
  const found = (await parseJsonFile(files, path, "HOME_FORMAT_UNKNOWN")) as Partial<typeof own>;
  if (found.kind !== own.kind || found.format !== 1) throw notAnAgentsHome(home, found.kind, found.format);
  if (found.fleet === undefined || found.device === undefined) throw ownerNotNamed(home, path, own);
  if (found.fleet !== own.fleet || found.device !== own.device) throw homeOfAnother(home, found, own);
}

/**
 * Makes the folder of the sockets: `<home>/run` where paths in it are short enough, else a temporary folder.
 */
export async function makeRunFolder(home: string): Promise<string> {
  const inside = join(home, "run");
  if (Buffer.byteLength(join(inside, "control.sock")) < maxSocketPathBytes) {
    await mkdir(inside, { recursive: true, mode: 0o700 });
    return inside;
  }
  return await mkdtemp(join(tmpdir(), `stemma-${randomBytes(3).toString("hex")}-`));
}

export async function writeRunFile(files: Files, home: string, run: RunFile): Promise<void> {
  await writeDurably(files, join(home, "run.json"), new TextEncoder().encode(`${JSON.stringify(run)}\n`));
}

/** Reads where the agent of a home listens. @throws AGENT_UNREACHABLE when none ever ran there */
export async function readRunFile(files: Files, home: string): Promise<RunFile> {
  const path = join(home, "run.json");
  if ((await files.stat(path)) === undefined) throw noAgentRuns(home);
  const run = (await parseJsonFile(files, path, "AGENT_UNREACHABLE")) as Partial<RunFile>;
  if (typeof run.control !== "string" || typeof run.samples !== "string" || typeof run.models !== "string")
    throw socketNotNamed(home, path);
  return run as RunFile;
}
