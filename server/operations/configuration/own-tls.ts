/**
 * TLS with the server's own authority, as the configuration asks for it; what is said and refused where it is weaker.
 */
import { join } from "node:path";
import { messageOf } from "../../../shared/error-text.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Log } from "../../../shared/ports.js";
import type { OpenFleets } from "../../services/context/open-fleets.js";
import { openServerTls, type ServerTls } from "../../access/identity/server-tls.js";
import type { Home } from "../../storage/repository/home.js";
import type { ClockGuard } from "./clock-guard.js";
import type { ServerConfig } from "./config.js";
import { tokensWithoutOption } from "./configuration-errors.js";

/** The authority's file for people: other programs that are to trust the server's certificate need it. */
export const authorityFile = "authority.pem";

/** @throws CLOCK_NOT_TRUSTED: no certificate is made by a clock that jumped */
export async function openOwnTls(
  config: ServerConfig,
  home: Home,
  { log, clockGuard }: { readonly log: Log; readonly clockGuard: Pick<ClockGuard, "requireTrusted"> },
): Promise<ServerTls> {
  const { mqttUrls = [], httpUrl } = config.enrolment;
  // URL does not normalise other schemes than http.
  const hosts = [...mqttUrls, ...(httpUrl === undefined ? [] : [httpUrl])].map(
    (url) => new URL(url.replace(/^mqtts?:/, "http:")).hostname,
  );
  const tls = await openServerTls({
    serverKey: home.signer,
    keyChanges: home.keyChanges,
    clock: home.ports.clock,
    random: home.ports.random,
    hosts: [config.host, ...hosts],
    requireClock: () => {
      clockGuard.requireTrusted();
    },
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

/**
 * Warns at every start: who listens on a plain port learns tokens and sees models, and a token can be copied.
 * An external broker is named where it is opened.
 */
export function warnOfWeakPorts({ tls, broker, host, deviceTokens }: ServerConfig, log: Log): void {
  if (tls !== "own") {
    const ports = tls === "none" && broker === undefined ? "MQTT and HTTP are" : "HTTP is";
    log.warn("plain-ports", {
      text: `${ports} not encrypted on ${host}, because this server was told so: whoever can read the network there sees models and learns the tokens of people${broker === undefined && tls === "none" ? " and devices" : ""}. Without \`--tls\`, and without listen.tls in server.json, the server encrypts both with its own authority and gives devices certificates (docs/certificates.md)`,
    });
  } else if (deviceTokens && broker === undefined)
    log.warn("device-tokens", {
      text: "devices may connect with tokens, because this server was told so: whoever copies a token can end its device's sessions. Give each device a certificate (`stemma device enroll DEVICE --line …`), then leave out `--device-tokens`, or listen.deviceTokens in server.json",
    });
}

/** Names that an error states. */
const maxNamed = 5;

/**
 * A device with a token would be refused for good, and does not know why: who runs the server has to say what is to
 * become of it.
 * @throws CONFIG_INVALID naming the devices and the options
 */
export async function refuseTokenDevices({ deviceTokens }: ServerConfig, fleets: OpenFleets): Promise<void> {
  if (deviceTokens) return;
  const found: string[] = [];
  for (const fleet of await fleets.names())
    for (const { device, state, certificates } of (await fleets.get(fleet)).devices())
      if (state !== "revoked" && certificates === undefined) found.push(`${fleet}/${device}`);
  if (found.length === 0) return;
  const named = found.slice(0, maxNamed).join(", ");
  const more = found.length > maxNamed ? ` and ${found.length - maxNamed} more` : "";
  throw tokensWithoutOption(found, named, more);
}
