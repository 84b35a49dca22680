/** Examines whether a server can start on this home: server.json, its ports, its external broker. */
import { stat } from "node:fs/promises";
import { createServer } from "node:net";
import { messageWithCode } from "../../../shared/error-text.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { nodeClock, silentLog } from "../../../shared/adapters/node-ports.js";
import { whyNotClock } from "../../operations/configuration/clock-guard.js";
import { serverConfig, type ServerConfig } from "../../operations/configuration/config.js";
import { readServerFile, serverFilePath } from "../../operations/configuration/config-file.js";
import { findLocalServer } from "../../interface/http/local-server.js";
import { connectExternal, readEnrolmentCa, readTls } from "../../operations/configuration/open-broker.js";
import type { Finding, Subject } from "./finding.js";

const brokerTimeoutMs = 5_000;
/** Addresses that mean "every address of this machine": a device cannot connect to them. */
const anyAddresses: readonly string[] = ["0.0.0.0", "::", "[::]"];

export async function examineServer({ home }: Subject): Promise<Finding[]> {
  const file = serverFilePath(home);
  let config: ServerConfig;
  try {
    config = await readConfig(home);
  } catch (error) {
    return [
      {
        what: "server.json",
        state: "wrong",
        found: messageWithCode(error),
        advice: `Correct ${file}, then run \`stemma doctor\` again: no server starts on this home until it is valid. \`stemma server --print-config-schema\` prints what it may contain.`,
      },
    ];
  }
  const isThere = (await stat(file).catch(() => undefined)) !== undefined;
  return [
    ...(isThere ? [settingsFinding(config, file)] : []),
    ...(config.broker === undefined ? [] : [await examineBroker(config, home)]),
    ...(await examineClock(home)),
    await examinePorts(config, home),
  ];
}

async function examineClock(home: string): Promise<Finding[]> {
  const why = await whyNotClock(nodeFiles(), home, nodeClock().now());
  if (why === undefined) return [];
  const advice = "Set the clock right; if it is right, start the server with --accept-clock.";
  return [{ what: "clock", state: "wrong", found: messageWithCode(why), advice }];
}

/**
 * Reads server.json and the files that it names.
 *
 * @throws CONFIG_INVALID, TOPIC_INVALID, FILE_MISSING
 */
async function readConfig(home: string): Promise<ServerConfig> {
  const { options } = await readServerFile(home);
  const config = serverConfig({ ...options, home });
  if (typeof config.tls === "object") await readTls(config.tls);
  await readEnrolmentCa(config);
  return config;
}

function settingsFinding({ host, broker, enrolment }: ServerConfig, file: string): Finding {
  const isUnreachable =
    broker === undefined && anyAddresses.includes(host) && enrolment.mqttUrls === undefined;
  if (!isUnreachable) return { what: "server.json", state: "good", found: `${file} is valid` };
  return {
    what: "server.json",
    state: "warning",
    found: `listens on ${host}, which enrolment files would give to devices although they cannot connect to it`,
    advice: "Set enrolment.mqttUrls to the address that devices can reach, or listen.host to another host.",
  };
}

async function examineBroker(config: ServerConfig, home: string): Promise<Finding> {
  const what = "external broker";
  const { url = "" } = config.broker ?? {};
  if ((await findLocalServer(home)) !== undefined)
    return { what, state: "good", found: `${url}, used by the server that runs on this home` };
  try {
    const broker = await connectExternal({
      config,
      clientId: `stemma-doctor-${process.pid}`,
      admit: () => Promise.resolve({ refused: "this is a test of the connection", code: "NOT_ALLOWED" }),
      log: silentLog(),
      connectTimeoutMs: brokerTimeoutMs,
    });
    await broker.close();
    return { what, state: "good", found: `${url} accepts this machine's connection` };
  } catch (error) {
    return {
      what,
      state: "wrong",
      found: messageWithCode(error),
      advice: "Start the broker, or correct broker in server.json.",
    };
  }
}

async function examinePorts(
  { host, mqttPort, httpPort, broker }: ServerConfig,
  home: string,
): Promise<Finding> {
  const running = await findLocalServer(home);
  if (running)
    return {
      what: "server",
      state: "good",
      found: `runs on this home, process ${running.pid}: ${running.mqttUrl}, ${running.httpUrl}`,
    };
  const ports = [...(broker === undefined ? [mqttPort] : []), httpPort].filter((port) => port !== 0);
  const taken: number[] = [];
  for (const port of ports) if (!(await isPortFree(host, port))) taken.push(port);
  if (taken.length === 0)
    return {
      what: "ports",
      state: "good",
      found: `free on ${host}: ${ports.join(", ") || "chosen at the start"}`,
    };
  return {
    what: "ports",
    state: "warning",
    found: `taken on ${host}: ${taken.join(", ")}`,
    advice:
      "The server would not start there: end what listens on it, or choose another port with --mqtt-port, --http-port or in server.json (0 for a free one).",
  };
}

function isPortFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => {
      resolve(false);
    });
    probe.listen(port, host, () => {
      probe.close(() => {
        resolve(true);
      });
    });
  });
}
