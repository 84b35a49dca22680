/** Starts broker-child.ts and asks it questions. For tests only. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";

export interface BrokerReport {
  readonly rss: number;
  readonly mostRss: number;
  readonly uncaught: readonly string[];
  readonly handled: number;
  readonly refusedFrames: number;
  readonly connections: number;
  readonly devices: number;
}
export interface BrokerProcess {
  readonly port: number;
  report(): Promise<BrokerReport>;
  socket(): Promise<Socket>;
  close(): Promise<void>;
}

export async function brokerProcess(): Promise<BrokerProcess> {
  const child = fork(fileURLToPath(new URL("./broker-child.js", import.meta.url)), { stdio: "inherit" });
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  return {
    port,
    report: async () => {
      const answer = once(child, "message");
      child.send("report");
      return ((await answer) as [BrokerReport])[0];
    },
    socket: async () => {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => undefined);
      await once(socket, "connect");
      return socket;
    },
    close: async () => {
      if (child.exitCode !== null) return;
      const gone = once(child, "exit");
      child.disconnect();
      await gone;
    },
  };
}
