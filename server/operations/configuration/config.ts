/**
 * The options of a server, given by the caller or by server.json (config-file.ts), checked and completed with
 * defaults. Values only: main.ts opens ports and files.
 */
import * as z from "zod";
import type { RequiredConfinement } from "../../../shared/train/own-recipes/confinement.js";
import { checkName, checkRoot, defaultRoot, isName } from "../../../shared/wire/topics.js";
import { brokerLimitsSchema, type BrokerLimits } from "../../access/broker/broker-limits.js";
import { httpLimitsSchema, type HttpLimits } from "../../interface/http/http-limits.js";
import { ingestLimitsSchema, type IngestLimits } from "../../fleet/ingest/limits.js";
import { trainingLimitsSchema, type TrainingLimits } from "../../services/context/training-limits.js";
import type { ReleasePolicy } from "../../fleet/ingest/uploads/confirmations.js";
import {
  certificateOfEmbedded,
  certificatesWithoutTls,
  limitsInvalid,
  nameOfServer,
  neitherTokensNorCertificates,
  plainAddress,
  portInvalid,
} from "./configuration-errors.js";

/** Paths of PEM files. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** The authority that devices trust, for enrolment files; the certificate itself when absent. */
  readonly caFile?: string | undefined;
}

/** The connection to another MQTT broker than the embedded one. */
export interface ExternalBrokerSettings {
  /** The URL, with mqtt:// or mqtts://. */
  readonly url: string;
  readonly clientId?: string | undefined;
  readonly username?: string | undefined;
  /** Path of a file whose first line is the password. */
  readonly passwordFile?: string | undefined;
  /** Path of the authority of the broker's certificate, PEM. */
  readonly caFile?: string | undefined;
  /** True if the broker asks each device for a certificate of this server's own authority. */
  readonly deviceCertificates?: boolean | undefined;
}

/** Addresses at which devices reach the server, where they differ from the server's own. */
export interface EnrolmentAddresses {
  readonly mqttUrls?: readonly string[] | undefined;
  readonly httpUrl?: string | undefined;
}

/**
 * "own" (default): MQTT and HTTP by the server's own authority, which also gives devices certificates. "none": plain
 * ports. Files: of the embedded broker alone.
 */
export type TlsChoice = TlsFiles | "own" | "none";

export interface ServerOptions {
  readonly home: string;
  /** Fleets to open; a missing one is created. All other fleets of the home are served too. */
  readonly fleets?: readonly string[] | undefined;
  /** Address that MQTT and HTTP listen on. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** 0: a free port. */
  readonly mqttPort?: number | undefined;
  readonly httpPort?: number | undefined;
  readonly tls?: TlsChoice | undefined;
  /** True if devices may have tokens instead of certificates; without TLS of its own a server takes nothing else. */
  readonly deviceTokens?: boolean | undefined;
  /** External broker to use; the embedded one when absent. */
  readonly broker?: ExternalBrokerSettings | undefined;
  readonly enrolment?: EnrolmentAddresses | undefined;
  readonly rootTopic?: string | undefined;
  readonly releaseAfter?: ReleasePolicy | undefined;
  readonly limits?: Partial<IngestLimits> | undefined;
  readonly brokerLimits?: Partial<BrokerLimits> | undefined;
  readonly httpLimits?: Partial<HttpLimits> | undefined;
  readonly trainingLimits?: Partial<TrainingLimits> | undefined;
  /** True if this start takes the clock as it is, however far it is past what the home knows. */
  readonly acceptClock?: boolean | undefined;
  /** True if retention rules are applied, an hour after the start and then once a day. Default true. */
  readonly retention?: boolean | undefined;
  readonly recipeConfinement?: RequiredConfinement | undefined;
  /** True if every rollout needs the approval of a second person. Default false. */
  readonly rolloutApproval?: boolean | undefined;
  /** True if others may publish to this server and pull from it. Default false. */
  readonly isHub?: boolean | undefined;
  /** Bytes that unfinished uploads to a fleet of the hub may have. */
  readonly maxUnfinishedBytes?: number | undefined;
  /** Takes the home over from a process that has not renewed its claim; a person has made sure that it ended. */
  readonly takeOver?: boolean | undefined;
}

/** Checked options, completed with defaults. */
export interface ServerConfig {
  readonly home: string;
  readonly fleets: readonly string[];
  readonly host: string;
  readonly mqttPort: number;
  readonly httpPort: number;
  readonly tls: TlsChoice;
  /** True if devices get certificates of the server's own authority. */
  readonly givesCertificates: boolean;
  readonly deviceTokens: boolean;
  readonly broker: ExternalBrokerSettings | undefined;
  readonly enrolment: EnrolmentAddresses;
  readonly rootTopic: string;
  readonly releaseAfter: ReleasePolicy;
  readonly limits: IngestLimits;
  readonly brokerLimits: BrokerLimits;
  readonly httpLimits: HttpLimits;
  readonly trainingLimits: TrainingLimits;
  readonly acceptClock: boolean;
  readonly retention: boolean;
  readonly recipeConfinement: RequiredConfinement;
  readonly rolloutApproval: boolean;
  readonly isHub: boolean;
  readonly maxUnfinishedBytes: number;
}

export const defaultMqttPort = 1883;
export const defaultHttpPort = 8083;
/** A few models of billions of parameters on their way. */
export const defaultMaxUnfinishedBytes = 2 ** 36;

const port = z.number().int().min(0).max(65_535);

/** @throws CONFIG_INVALID naming the option, TOPIC_INVALID for names */
export function serverConfig(options: ServerOptions): ServerConfig {
  const { broker, tls = "own" } = options;
  const fleets = options.fleets ?? [];
  for (const fleet of fleets) checkName(fleet, "fleet");
  if (broker !== undefined && typeof tls === "object") throw certificateOfEmbedded();
  if (broker?.deviceCertificates === true) checkCertificatesThere(broker, tls);
  const givesCertificates = tls === "own" && (broker === undefined || broker.deviceCertificates === true);
  if (!givesCertificates && options.deviceTokens === false) throw neitherTokensNorCertificates();
  if (givesCertificates) refusePlainAddresses(options.enrolment);
  return {
    home: options.home,
    fleets,
    host: options.host ?? "127.0.0.1",
    mqttPort: checkedPort("mqttPort", options.mqttPort ?? defaultMqttPort),
    httpPort: checkedPort("httpPort", options.httpPort ?? defaultHttpPort),
    tls,
    givesCertificates,
    deviceTokens: options.deviceTokens ?? !givesCertificates,
    broker,
    enrolment: options.enrolment ?? {},
    rootTopic: checkRoot(options.rootTopic ?? defaultRoot),
    releaseAfter: options.releaseAfter ?? "stored",
    limits: checkedLimits(ingestLimitsSchema, options.limits),
    brokerLimits: checkedLimits(brokerLimitsSchema, options.brokerLimits),
    httpLimits: checkedLimits(httpLimitsSchema, options.httpLimits),
    trainingLimits: checkedLimits(trainingLimitsSchema, options.trainingLimits),
    acceptClock: options.acceptClock ?? false,
    retention: options.retention ?? true,
    recipeConfinement: options.recipeConfinement ?? "namespaces",
    rolloutApproval: options.rolloutApproval ?? false,
    isHub: options.isHub ?? false,
    maxUnfinishedBytes: options.maxUnfinishedBytes ?? defaultMaxUnfinishedBytes,
  };
}

/** @throws CONFIG_INVALID */
function checkCertificatesThere(
  { url, caFile, clientId, username }: ExternalBrokerSettings,
  tls: TlsChoice,
): void {
  if (!(tls === "own" && caFile !== undefined && url.startsWith("mqtts:"))) throw certificatesWithoutTls();
  const taken = [clientId, username].find((each) => each !== undefined && isName(each));
  if (taken === undefined) return;
  throw nameOfServer(taken);
}

/** Devices would try a plain connection to a port that has TLS. @throws CONFIG_INVALID */
function refusePlainAddresses({ mqttUrls = [], httpUrl = "" }: EnrolmentAddresses = {}): void {
  const plain = [...mqttUrls, httpUrl].find((url) => /^(mqtt|http):/.test(url));
  if (plain !== undefined) throw plainAddress(plain);
}

function checkedPort(name: string, value: number): number {
  if (port.safeParse(value).success) return value;
  throw portInvalid(name, value);
}

function checkedLimits<T>(schema: z.ZodType<T>, limits: object = {}): T {
  const checked = schema.safeParse(limits);
  if (checked.success) return checked.data;
  throw limitsInvalid(checked.error);
}
