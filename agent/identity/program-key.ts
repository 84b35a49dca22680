/**
 * A device's key that a program of the device's owner has: one of a TPM, of a PKCS #11 token, of a service. The program
 * is named in agent.json alone. It is run for each signature, one at a time, and what it prints is checked.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import type { Clock, Files } from "../../shared/ports.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import { signatureOfProgram } from "../../shared/trust/signing-program.js";
import { endLeftProcess, noteProcess } from "../../shared/programs/left-process.js";
import { plainEnvironment, runProgram, type ProgramEnd } from "../../shared/adapters/run-program.js";
import { checkCommand, checkSettingsFile } from "../../shared/programs/trusted-command.js";
import type { DeviceKeySettings } from "../settings/device-key.js";

export interface ProgramKeyParts {
  readonly settings: DeviceKeySettings;
  /** The agent's own folder. */
  readonly home: string;
  readonly files: Pick<Files, "makeFolder">;
  readonly clock: Clock;
  /** Absolute path of agent.json; undefined: its content was given. */
  readonly configFile: string | undefined;
  /** User id that owns agent.json; undefined where the system has no user ids. */
  readonly owner: number | undefined;
  /** Aborting ends the program that runs. */
  readonly signal: AbortSignal;
}

const field = "deviceKey.exec";
const program = `The program ${field} of agent.json`;
/** A signature has two lines at most; more than this is not read. */
const maxLines = 16;
const maxErrorCharacters = 400;

/** @throws CONFIG_INVALID where the program is missing, or others than the owner of agent.json may change it */
export async function openProgramKey(parts: ProgramKeyParts): Promise<DeviceKey> {
  const { settings, configFile, owner, home } = parts;
  if (configFile !== undefined) await checkSettingsFile(configFile, owner);
  await checkCommand(settings, { field, owner });
  await endLeftProcess(folderOf(home));
  const queue = new SerialQueue();
  return {
    publicKey: settings.publicKey,
    sign: (message) => queue.run(() => signWith(parts, message)),
  };
}

const folderOf = (home: string): string => join(home, "signing");

async function signWith(parts: ProgramKeyParts, message: Uint8Array): Promise<Uint8Array> {
  const { settings, home, files, clock, owner, signal } = parts;
  const { publicKey, exec, timeoutSeconds } = settings;
  const asked = { program, publicKey, message };
  const folder = folderOf(home);
  const lines: string[] = [];
  let end: ProgramEnd;
  try {
    await files.makeFolder(folder);
    await checkCommand(settings, { field, owner });
    end = await runProgram(
      { exec, folder, environment: environmentOf(home), timeoutSeconds, input: message },
      {
        clock,
        signal,
        onLine: (line) => {
          if (lines.length < maxLines) lines.push(line);
        },
        onStarted: (pid) => noteProcess(folder, pid),
      },
    );
  } catch (cause) {
    return signatureOfProgram({
      ...asked,
      printed: undefined,
      how: messageOf(cause).replace(/\.$/, ""),
      cause,
    });
  }
  const how = whyNot(end, timeoutSeconds);
  if (how !== undefined) return signatureOfProgram({ ...asked, printed: undefined, how });
  return signatureOfProgram({ ...asked, printed: lines.join("\n") });
}

function whyNot({ reason, code, signal, errors }: ProgramEnd, timeoutSeconds: number): string | undefined {
  if (reason === "stopped") return "the agent stops";
  const wrote = errors === "" ? "" : `; it wrote: ${errors.slice(-maxErrorCharacters)}`;
  if (reason === "timed-out") return `it did not end within ${timeoutSeconds} seconds and was ended${wrote}`;
  if (code === 0) return undefined;
  return `it ended with ${code === null ? `the signal ${signal}` : `status ${code}`}${wrote}`;
}

/** All that the program gets from its surroundings; nothing of the agent's own environment. */
function environmentOf(home: string): Record<string, string> {
  return {
    ...plainEnvironment,
    HOME: home,
    TMPDIR: "/tmp",
  };
}
