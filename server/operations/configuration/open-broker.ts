/** Opens the MQTT broker that the configuration names: the embedded one or an external one. */
import { defined } from "../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import type { Clock, Log } from "../../../shared/ports.js";
import type { Signer } from "../../../shared/trust/keys.js";
import type { Authenticate, RunningBroker } from "../../access/broker/broker-port.js";
import type { ServerTls } from "../../access/identity/server-tls.js";
import type { AdmitSession } from "../../access/broker/external-sessions.js";
import { startBroker, type BrokerTls, type EmbeddedBroker } from "../../access/broker/start-broker.js";
import type { ExternalBrokerSettings, ServerConfig, TlsFiles } from "./config.js";
import { fileUnreadable } from "./configuration-errors.js";

export interface OpenBrokerParts {
  readonly config: ServerConfig;
  /** The TLS of the embedded broker; without it, it speaks plain MQTT. */
  readonly tls: BrokerTls | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /**
   * The server's key. Part of the public one is in the client id at an external broker, which thus stays the same.
   */
  readonly signer: Signer;
  readonly authenticate: Authenticate;
  readonly admit: AdmitSession;
}

export interface TlsTexts {
  readonly cert: string;
  readonly key: string;
  /** The authority that devices trust. */
  readonly ca: string;
}

/** TLS of the embedded broker, by files or by the server's own authority. @throws FILE_MISSING */
export async function brokerTls(
  { tls }: Pick<ServerConfig, "tls">,
  own: ServerTls | undefined,
): Promise<BrokerTls | undefined> {
  if (own !== undefined)
    return {
      ...own.identity,
      asksDevices: true,
      onRenewed: (use) => {
        own.onRenewed(use);
      },
    };
  if (typeof tls === "string") return undefined;
  const { key, cert } = await readTls(tls);
  return { key, cert };
}

/** @throws PORT_TAKEN, SERVER_UNREACHABLE, FILE_MISSING */
export function openBroker(parts: OpenBrokerParts): Promise<RunningBroker> {
  const { broker } = parts.config;
  return broker === undefined ? openEmbedded(parts) : openExternal(broker, parts);
}

function openEmbedded({ config, tls, clock, log, authenticate }: OpenBrokerParts): Promise<EmbeddedBroker> {
  return startBroker({
    root: config.rootTopic,
    clock,
    log: log.child({ part: "broker" }),
    host: config.host,
    port: config.mqttPort,
    limits: config.brokerLimits,
    ...defined({ tls }),
    authenticate,
  });
}

async function openExternal(
  { url, clientId, deviceCertificates = false }: ExternalBrokerSettings,
  { config, log, signer, admit }: OpenBrokerParts,
): Promise<RunningBroker> {
  const proofs = config.givesCertificates ? "certificates" : "tokens";
  log.warn("broker-external", {
    url,
    text: `devices connect with ${proofs} to an external MQTT broker: this server can check neither their ${proofs} nor their topics there, and cannot end a connection. That broker must authenticate each device and bind it to its own client id and topics (docs/reference/server-json.md)`,
  });
  return connectExternal({
    config,
    // No device can have this name where devices are known by their names.
    clientId: clientId ?? `stemma${deviceCertificates ? ":" : "-"}server-${signer.publicKey.slice(0, 12)}`,
    admit,
    signer,
    log: log.child({ part: "broker" }),
  });
}

export interface ConnectExternalParts {
  readonly config: ServerConfig;
  readonly clientId: string;
  readonly admit: AdmitSession;
  readonly signer?: Signer;
  readonly log: Log;
  /** The time that the first connection may take, in milliseconds. */
  readonly connectTimeoutMs?: number;
}

/** Connects to the external broker that the configuration names. @throws SERVER_UNREACHABLE, FILE_MISSING */
export async function connectExternal({ config, ...parts }: ConnectExternalParts): Promise<RunningBroker> {
  const { broker, rootTopic, brokerLimits } = config;
  if (broker === undefined) throw new StemmaError("INTERNAL", "No external broker is configured.");
  const { url, username, passwordFile, caFile } = broker;
  // The library of external brokers is loaded only by the servers that need it.
  const { connectBroker } = await import("../../access/broker/external-broker.js");
  return connectBroker({
    ...parts,
    url,
    root: rootTopic,
    username,
    password: passwordFile === undefined ? undefined : await readFirstLine(passwordFile),
    ca: caFile === undefined ? undefined : await readConfigured(caFile),
    limits: brokerLimits,
  });
}

/** @throws FILE_MISSING */
export async function readTls({ certFile, keyFile, caFile }: TlsFiles): Promise<TlsTexts> {
  const [cert, key] = await Promise.all([readConfigured(certFile), readConfigured(keyFile)]);
  return { cert, key, ca: caFile === undefined ? cert : await readConfigured(caFile) };
}

/**
 * PEM of the authority that devices have to trust, for enrolment files; undefined: the system's authorities.
 * @throws FILE_MISSING
 */
export async function readEnrolmentCa({
  tls,
  broker,
}: Pick<ServerConfig, "tls" | "broker">): Promise<string | undefined> {
  const files = typeof tls === "string" ? undefined : tls;
  const file = broker === undefined ? (files?.caFile ?? files?.certFile) : broker.caFile;
  return file === undefined ? undefined : readConfigured(file);
}

async function readFirstLine(path: string): Promise<string> {
  return (await readConfigured(path)).split(/\r?\n/, 1)[0] ?? "";
}

/** A text file that the configuration names. @throws FILE_MISSING */
async function readConfigured(path: string): Promise<string> {
  const bytes = await regularFiles()
    .read(path)
    .catch((cause: unknown) => {
      if (isStemmaError(cause, "FILE_NOT_REGULAR")) throw cause;
      throw fileUnreadable("A file that the server's configuration names,", path, cause);
    });
  return Buffer.from(bytes).toString("utf8");
}
