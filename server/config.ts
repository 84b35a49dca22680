/** What a server is started with, checked. Values only; ports and files are main's. */
import { z } from "zod";
import { StemmaError } from "../shared/errors.js";
import { checkName, checkRoot, defaultRoot } from "../shared/wire/topics.js";
import { defaultIngestLimits, type IngestLimits } from "./ingest/limits.js";
import type { ReleasePolicy } from "./ingest/confirmations.js";

export interface ServerOptions {
  readonly home: string;
  /** Fleets that are opened, and made where they do not exist; those that exist already are served too. */
  readonly fleets?: readonly string[];
  /** Address both doors listen on; 127.0.0.1 unless told. */
  readonly host?: string;
  /** 0: a free one. One that is taken is replaced by a free one, and that is said. */
  readonly mqttPort?: number;
  readonly httpPort?: number;
  readonly tls?: {
    readonly certFile: string;
    readonly keyFile: string;
    /**
     * PEM of the authority, for enrolment files; the certificate itself when absent.
     */
    readonly caFile?: string;
  };
  readonly rootTopic?: string;
  readonly releaseAfter?: ReleasePolicy;
  readonly limits?: Partial<IngestLimits>;
  /**
   * Whether retention rules are applied, an hour after the start and then once a day; they are unless told.
   */
  readonly retention?: boolean;
}

export interface ServerConfig extends Required<Omit<ServerOptions, "tls" | "limits">> {
  readonly tls: ServerOptions["tls"];
  readonly limits: IngestLimits;
}

export const defaultMqttPort = 1883;
export const defaultHttpPort = 8083;

const port = z.number().int().min(0).max(65_535);
const limitsSchema = z.object(
  Object.fromEntries(
    Object.entries(defaultIngestLimits).map(([name, value]) => [
      name,
      (typeof value === "boolean" ? z.boolean() : z.number().int().positive()).optional(),
    ]),
  ),
);

/** @throws CONFIG_INVALID naming the option, TOPIC_INVALID for names */
export function serverConfig(options: ServerOptions): ServerConfig {
  const config = {
    home: options.home,
    fleets: options.fleets ?? [],
    host: options.host ?? "127.0.0.1",
    mqttPort: options.mqttPort ?? defaultMqttPort,
    httpPort: options.httpPort ?? defaultHttpPort,
    tls: options.tls,
    rootTopic: options.rootTopic ?? defaultRoot,
    releaseAfter: options.releaseAfter ?? ("stored" as const),
    limits: { ...defaultIngestLimits, ...options.limits },
    retention: options.retention ?? true,
  };
  for (const fleet of config.fleets) checkName(fleet, "fleet");
  checkRoot(config.rootTopic);
  for (const [name, value] of [
    ["mqttPort", config.mqttPort],
    ["httpPort", config.httpPort],
  ] as const) {
    if (!port.safeParse(value).success)
      throw new StemmaError(
        "CONFIG_INVALID",
        `${name} is ${value}; a port is a whole number from 0 to 65535.`,
        { name },
      );
  }
  const limits = limitsSchema.safeParse(config.limits);
  if (!limits.success)
    throw new StemmaError(
      "CONFIG_INVALID",
      `The server's limits are not valid: ${z.prettifyError(limits.error)}`,
    );
  return config;
}
