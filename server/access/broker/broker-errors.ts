/** Errors of brokers: addresses on which this server cannot listen, and brokers that do not let it in. */
import { errorOf, StemmaError } from "../../../shared/errors.js";

const unreachable = errorOf("SERVER_UNREACHABLE");

export const portNotUsable = (port: number, host: string, cause: NodeJS.ErrnoException): StemmaError =>
  new StemmaError(
    "PORT_TAKEN",
    `The MQTT port ${port} on ${host} cannot be used (${cause.code}): another program may listen there, or another Stemma server. Choose another with --mqtt-port, or 0 for a free one.`,
    { cause, port, host },
  );
export const addressNotUsable = (port: number, host: string, cause: NodeJS.ErrnoException): StemmaError =>
  unreachable(`The MQTT broker cannot listen on ${host}:${port} (${cause.message}). Check the address.`, {
    cause,
    port,
    host,
  });
export const brokerRefused = (url: string, why: string, next: string, cause: unknown): StemmaError =>
  unreachable(`The MQTT broker ${url} did not accept this server: ${why}. ${next}`, { cause, url });
export const subscriptionRefused = (url: string, refused: readonly string[]): StemmaError =>
  new StemmaError(
    "NOT_ALLOWED",
    `The MQTT broker ${url} refuses the subscription to ${refused.join(", ")}. Allow it to this server's user.`,
    { url },
  );
