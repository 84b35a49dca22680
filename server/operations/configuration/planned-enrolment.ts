/** Computes from the home's server.json how devices will reach a server that does not run yet. */
import { serverConfig } from "./config.js";
import { readServerFile } from "./config-file.js";
import type { EnrolmentAddresses } from "../../services/context/operations-context.js";
import { readEnrolmentCa } from "./open-broker.js";
import type { Authority } from "../../access/identity/authority.js";
import { urlHost } from "../../../shared/url-host.js";

/** @throws CONFIG_INVALID, FILE_MISSING */
export async function plannedEnrolment(
  home: string,
  authority: () => Promise<Authority>,
): Promise<EnrolmentAddresses> {
  const { options } = await readServerFile(home);
  const config = serverConfig({ ...options, home });
  const { mqttUrls, httpUrl } = config.enrolment;
  const { tls, host, broker, mqttPort, httpPort, givesCertificates } = config;
  const brokerUrl = broker?.url ?? `${tls === "none" ? "mqtt" : "mqtts"}://${urlHost(host)}:${mqttPort}`;
  return {
    mqtt: mqttUrls ?? [brokerUrl],
    // Devices ask for certificates there.
    http: httpUrl ?? (givesCertificates ? `https://${urlHost(host)}:${httpPort}` : undefined),
    ca: await readEnrolmentCa(config),
    authorities: givesCertificates ? [(await authority()).certificate] : undefined,
    root: config.rootTopic,
    takesTokens: config.deviceTokens,
  };
}
