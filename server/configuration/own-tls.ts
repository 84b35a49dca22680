/** TLS with the server's own authority, as the configuration asks for it; what is said where there is no TLS. */
import { join } from "node:path";
import { messageOf } from "../../shared/error-text.js";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Log } from "../../shared/ports.js";
import { openServerTls, type ServerTls } from "../identity/server-tls.js";
import type { Home } from "../repository/home.js";
import type { ServerConfig } from "./config.js";

/** For people: other programs that are to trust the server's certificate need this file. */
export const authorityFile = "authority.pem";

export async function openOwnTls(config: ServerConfig, home: Home, log: Log): Promise<ServerTls> {
  const { mqttUrls = [], httpUrl } = config.enrolment;
  // Other schemes than http are not normalised by URL.
  const hosts = [...mqttUrls, ...(httpUrl === undefined ? [] : [httpUrl])].map(
    (url) => new URL(url.replace(/^mqtts?:/, "http:")).hostname,
  );
  const tls = await openServerTls({
    serverKey: home.signer,
    clock: home.ports.clock,
    random: home.ports.random,
    hosts: [config.host, ...hosts],
    onRenewFailed: (error) => {
      log.error("certificate-not-renewed", { text: messageOf(error) });
    },
  });
  await writeDurably(
    home.ports.files,
    join(home.path, authorityFile),
    Buffer.from(`${tls.authority.certificate}\n`),
  );
  return tls;
}

/** At every start: who listens on a plain port learns tokens and sees models. */
export function warnOfPlainPorts({ tls, broker, host }: ServerConfig, log: Log): void {
  if (tls === "own" || broker !== undefined) return;
  const ports = tls === undefined ? "MQTT and HTTP are" : "HTTP is";
  log.warn("plain-ports", {
    text: `${ports} without TLS on ${host}: who can listen there learns tokens and sees models. \`stemma server --tls own\` encrypts both and gives devices certificates`,
  });
}
