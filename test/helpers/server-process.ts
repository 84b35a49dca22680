/** Starts a server in its own process from the command line, so that a test can kill it. */
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { connectOperations } from "../../server/http/client.js";
import type { ServerOperations } from "../../server/api/server-operations.js";

export interface ServerProcess {
  readonly pid: number;
  readonly mqttUrl: string;
  readonly httpUrl: string;
  readonly operations: ServerOperations;
  /** Sends this signal and resolves with the exit status when the process has ended. */
  kill(signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null>;
  readonly child: ChildProcess;
}

const serverProgram = fileURLToPath(new URL("../../server/cli/main.js", import.meta.url));

/**
 * Starts `stemma server` on a home and waits until it prints its addresses. It ends with this process. Its ports are
 * plain unless the options name --tls.
 */
export async function startServerProcess(
  home: string,
  fleet: string,
  environment: Readonly<Record<string, string>> = {},
  options: readonly string[] = [],
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
      ...(options.includes("--tls") ? [] : ["--tls", "none"]),
      ...options,
    ],
    { stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, ...environment, STEMMA_EXIT_WITH_STDIN: "1" } },
  );
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
    child.once("exit", (code, signal) => {
      resolve(signal ?? code);
    });
  });
  let stdoutText = "";
  let stderrText = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderrText = (stderrText + text).slice(-4000);
  });
  const ready = await new Promise<{ mqttUrl: string; httpUrl: string; socketPath: string }>(
    (resolve, reject) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdoutText += text;
        try {
          resolve(JSON.parse(stdoutText) as { mqttUrl: string; httpUrl: string; socketPath: string });
        } catch {
          // The JSON is not complete yet.
        }
      });
      void ended.then((status) => {
        reject(new Error(`the server ended (${String(status)}) before it was ready: ${stderrText}`));
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
