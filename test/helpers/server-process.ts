/** A server as a process of its own, started like a person would, so that it can be killed like one. */
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { connectOperations } from "../../server/http/client.js";
import type { ServerOperations } from "../../server/api/server-operations.js";

export interface ServerProcess {
  readonly pid: number;
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly operations: ServerOperations;
  /** Ends it with this signal and resolves when it is gone. */
  kill(signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null>;
  readonly child: ChildProcess;
}

const serverProgram = fileURLToPath(new URL("../../server/cli/main.js", import.meta.url));

/** Starts `stemma server` on a home and waits until it says where it is. Dies with this process. */
export async function startServerProcess(
  home: string,
  fleet: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  const child = spawn(
    process.execPath,
    [
      serverProgram,
      "server",
      "--home",
      home,
      "--fleet",
      fleet,
      "--mqtt-port",
      "0",
      "--http-port",
      "0",
      "-o",
      "json",
    ],
    { stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, ...environment, STEMMA_EXIT_WITH_STDIN: "1" } },
  );
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once("exit", (code, signal) => {
      resolve(signal ?? code);
    });
  });
  let said = "",
    complained = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complained = (complained + text).slice(-4000);
  });
  const ready = await new Promise<{ mqttUrl: string; httpUrl: string; socketPath: string }>(
    (resolve, reject) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        said += text;
        try {
          resolve(JSON.parse(said) as { mqttUrl: string; httpUrl: string; socketPath: string });
        } catch {
          /* not whole yet */
        }
      });
      void ended.then((how) => {
        reject(new Error(`the server ended (${String(how)}) before it was ready: ${complained}`));
      });
    },
  );
  return {
    pid: child.pid ?? 0,
    mqttUrl: ready.mqttUrl,
    httpUrl: ready.httpUrl,
    child,
    operations: connectOperations({ socketPath: ready.socketPath }, 100),
    kill: (signal) => {
      child.kill(signal);
      return ended;
    },
  };
}
