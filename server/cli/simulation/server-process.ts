/** A server in a process of its own, which ends with this one, also where this one is killed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { ownPart } from "../../../shared/adapters/own-program.js";
import { StemmaError } from "../../../shared/errors.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { connectOperations } from "../../interface/http/client.js";

interface ReadyServer {
  readonly pid: number;
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly socketPath: string;
}

export interface ServerProcess extends Omit<ReadyServer, "socketPath"> {
  readonly operations: ServerOperations;
  /** Sends the signal and resolves when the process has ended, with its exit status or the signal that ended it. */
  kill(signal: NodeJS.Signals): Promise<Ended>;
  /** Resolves when the process has ended, for whatever reason, with a text that says how, and its last words. */
  readonly ending: Promise<string>;
}

export interface ServerProcessOptions {
  /** More of `stemma server`. Without --tls among them its ports are plain. */
  readonly options?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Milliseconds after which a server that does not serve yet is killed. */
  readonly startMs?: number;
}

type Ended = number | NodeJS.Signals;

const serverProgram = fileURLToPath(new URL("../main.js", import.meta.url));
/** The time between two looks at a job that it works on. */
const pollMs = 100;
const lastWordsLength = 4000;

/**
 * Starts `stemma server` on a home, on free ports, and resolves when it serves.
 * @throws CHECK_FAILED with its last words where it ends before, or is not ready in time
 */
export async function startServerProcess(
  home: string,
  fleet: string,
  { options = [], environment = {}, startMs }: ServerProcessOptions = {},
): Promise<ServerProcess> {
  const { program, args } = ownPart({
    script: serverProgram,
    args: [
      ...["server", "--home", home, "--fleet", fleet],
      ...["--mqtt-port", "0", "--http-port", "0", "-o", "json"],
      ...(options.includes("--tls") ? [] : ["--tls", "none"]),
      ...options,
    ],
  });
  const child = spawn(program, [...args], {
    // The server's standard input is a pipe from this process: where this one is killed, it ends too.
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, ...environment, STEMMA_EXIT_WITH_STDIN: "1" },
    // The server gets its own group: Ctrl-C in the terminal is for this process, which ends it.
    detached: true,
  });
  let lastWords = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    lastWords = (lastWords + text).slice(-lastWordsLength);
  });
  const closed = once(child, "close").catch((error: Error) => {
    lastWords += error.message;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.once("exit", (status, signal) => {
      resolve(signal ?? status ?? 1);
    });
    child.once("error", () => {
      resolve(1);
    });
  });
  const ending = ended.then(async (how) => {
    await closed;
    return `(${how}). Its last words: ${lastWords.trim()}`;
  });
  const timer = startMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), startMs);
  const ready = await Promise.race([readyServer(child.stdout), ended]);
  clearTimeout(timer);
  if (typeof ready !== "object")
    throw new StemmaError("CHECK_FAILED", `The server on ${home} ended before it was ready ${await ending}`);
  const { pid, mqttUrl, httpUrl, socketPath } = ready;
  return {
    pid,
    mqttUrl,
    httpUrl,
    operations: connectOperations({ socketPath }, pollMs),
    kill: (signal) => {
      child.kill(signal);
      return ended;
    },
    ending,
  };
}

/** The addresses that a server prints as JSON of several lines once it serves. */
function readyServer(stdout: NodeJS.ReadableStream): Promise<ReadyServer> {
  return new Promise((resolve) => {
    let text = "";
    stdout.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
      try {
        resolve(JSON.parse(text) as ReadyServer);
      } catch {
        // The JSON is not complete yet.
      }
    });
  });
}
