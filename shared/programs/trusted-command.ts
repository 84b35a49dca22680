/**
 * Checks that only the owner of agent.json (or root) can change the program that an external trainer runs. That is the
 * program itself, files among its arguments, and every folder above them. Hashes them for the provenance.
 */
import { realpath, stat } from "node:fs/promises";
import { basename, isAbsolute } from "node:path";
import type { Stats } from "node:fs";
import { StemmaError } from "../errors.js";
import { commandHash } from "./command-settings.js";
import { hashFile } from "./hash-file.js";
import { whoMayChange } from "./who-may-change.js";

/** Files among the arguments are hashed up to this size. */
const maxHashedBytes = 256 * 1024 * 1024;

/** A program and its arguments. */
interface Command {
  readonly exec: readonly string[];
}

/** A command as the provenance names it: no path of the device. */
export interface CommandIdentity {
  /** Hash of the program's path and its arguments. */
  readonly sha256: string;
  /** File names of the program and of files among its arguments. */
  readonly program: string;
  /** Content of the program and of files among its arguments, by the position of the argument. */
  readonly files: readonly { readonly argument: number; readonly sha256: string }[];
}

export interface TrustedCommandOptions {
  /** The field of agent.json, or what else is checked, for messages. */
  readonly field: string;
  /** User id that owns agent.json; undefined where the system has no user ids. */
  readonly owner: number | undefined;
  /** The settings that name the command; absent: those of an agent. */
  readonly settings?: SettingsTexts | undefined;
}

/** Settings that name a command, as messages call them. */
export interface SettingsTexts {
  readonly title: string;
  readonly file: string;
  /** The thing to do when they are corrected. */
  readonly afterwards: string;
}

const settingsOfAgent: SettingsTexts = {
  title: "The agent's configuration is not usable",
  file: "agent.json",
  afterwards: "start the agent again",
};

/**
 * @throws CONFIG_INVALID naming the field, where the program is missing or another user may change it
 */
export async function checkCommand(trainer: Command, options: TrustedCommandOptions): Promise<void> {
  const [program = "", ...others] = trainer.exec;
  await checkFile(program, options, true);
  for (const path of others) if (isAbsolute(path)) await checkFile(path, options, false);
}

/** The user id of the settings' owner; without a file, that of this process; undefined without user ids. */
export async function ownerOfSettings(path: string | undefined): Promise<number | undefined> {
  const own = process.getuid?.();
  if (own === undefined || path === undefined) return own;
  return (await stat(path).catch(() => undefined))?.uid ?? own;
}

/** Checks the settings' file itself: who may change it chooses what runs. @throws CONFIG_INVALID */
export async function checkSettingsFile(
  path: string,
  owner: number | undefined,
  settings: SettingsTexts = settingsOfAgent,
): Promise<void> {
  await checkFile(path, { field: `${settings.file} itself`, owner, settings }, false);
}

async function checkFile(
  path: string,
  { field, owner, settings = settingsOfAgent }: TrustedCommandOptions,
  isProgram: boolean,
): Promise<void> {
  const refuse = (problem: string): StemmaError =>
    new StemmaError(
      "CONFIG_INVALID",
      `${settings.title}: ${field}: ${problem} Correct that and ${settings.afterwards}.`,
      { field, path },
    );
  let real: string;
  let found: Stats;
  try {
    real = await realpath(path);
    found = await stat(real);
  } catch {
    // An argument may be a path that the program itself makes.
    if (!isProgram) return;
    throw refuse(`the program ${path} does not exist.`);
  }
  if (isProgram && (!found.isFile() || (found.mode & 0o111) === 0))
    throw refuse(`${path} is not a program that can be run (chmod +x).`);
  if (!found.isFile()) return;
  const problem = await whoMayChange(path, owner);
  if (problem !== undefined)
    throw refuse(
      `${problem.path} ${problem.text}, so others than the owner of ${settings.file} could change what runs.`,
    );
}

/** Identifies a command by what it is now. @throws FILE_FAILED where a file cannot be read */
export async function identifyCommand({ exec }: Command): Promise<CommandIdentity> {
  const files: { argument: number; sha256: string }[] = [];
  const names: string[] = [];
  for (const [argument, path] of exec.entries()) {
    const sha256 = isAbsolute(path) ? await hashOfFile(path) : undefined;
    if (sha256 !== undefined) files.push({ argument, sha256 });
    if (sha256 !== undefined || argument === 0) names.push(basename(path));
  }
  return { sha256: commandHash({ exec }), program: names.join(" ").slice(0, 200), files };
}

/** undefined for what is not a file, or is too large. */
async function hashOfFile(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() !== true || found.size > maxHashedBytes ? undefined : await hashFile(path);
}
