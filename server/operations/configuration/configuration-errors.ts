/** Errors of the server's configuration, sorted by what they are about. Each says how to begin otherwise. */
import * as z from "zod";
import { messageOf } from "../../../shared/error-text.js";
import { errorOf, StemmaError } from "../../../shared/errors.js";

const invalidConfig = errorOf("CONFIG_INVALID");

// Files and values.
export const fileUnreadable = (what: string, path: string, cause: unknown): StemmaError =>
  new StemmaError(
    "FILE_MISSING",
    `${what} ${path} cannot be read (${messageOf(cause)}). Check the path and the file's permissions.`,
    { cause, path },
  );
export const portInvalid = (name: string, value: number): StemmaError =>
  invalidConfig(`${name} is ${value}; a port is a whole number from 0 to 65535. Choose another.`, { name });
export const limitsInvalid = (error: z.ZodError): StemmaError =>
  invalidConfig(`The server's limits are not valid: ${z.prettifyError(error)}. Correct them.`);

// TLS, certificates and tokens.
export const certificateOfEmbedded = (): StemmaError =>
  invalidConfig(
    "The certificate belongs to the embedded broker, but an external broker is configured. Remove it here (listen.tls, --tls-cert, --tls-key), and set up TLS at that broker.",
  );
export const neitherTokensNorCertificates = (): StemmaError =>
  invalidConfig(
    'listen.deviceTokens is false, but this server gives devices no certificates. Remove it, or set listen.tls to "own" and use the embedded broker, or an external one with broker.deviceCertificates.',
  );
export const certificatesWithoutTls = (): StemmaError =>
  invalidConfig(
    'broker.deviceCertificates needs an mqtts:// address and broker.caFile, which devices judge the broker by, and listen.tls "own", whose authority gives them certificates. Set these, or remove broker.deviceCertificates.',
  );
export const plainAddress = (plain: string): StemmaError =>
  invalidConfig(
    `Enrolments would name the address ${plain}, which is plain, and this server uses TLS. Write mqtts:// and https:// (--public-url, enrolment in server.json), or start it with plain ports: --tls none, or "tls": "none" under listen in server.json.`,
  );
export const tokensWithoutOption = (found: readonly string[], named: string, more: string): StemmaError =>
  invalidConfig(
    `${found.length === 1 ? "A device of this home has a token" : `${found.length} devices of this home have tokens`} and no certificate (${named}${more}), and a server without further options takes none: MQTT and HTTP use TLS, and devices certificates. To go on as before, with plain ports, start it with \`--tls none\` (in server.json "listen": {"tls": "none"}). To use TLS now and keep these devices until they have certificates, start it with \`--device-tokens\` and bring each its file again with the new addresses: \`stemma device enroll DEVICE --readdress FILE\`. docs/certificates.md, "From tokens to certificates".`,
    { devices: found.slice(0, 100) },
  );

// Names at an external broker, which knows devices by their names alone.
export const nameOfServer = (taken: string): StemmaError =>
  invalidConfig(
    `A device could be named ${taken}, as this server is at its broker, and take its place there. Put a character that no device's name has into broker.username and broker.clientId, such as ${taken}.stemma.`,
  );
export const nameOfAnotherFleet = (device: string): StemmaError =>
  new StemmaError(
    "NAME_INVALID",
    `Another fleet of this server has or had a device ${device}, and its external broker knows devices by their names alone. Give this one another name.`,
    { device },
  );
export const sameNames = (same: readonly string[], maxNamed: number): StemmaError =>
  invalidConfig(
    `Fleets of this home have devices of the same name (${same.slice(0, maxNamed).join(", ")}${same.length > maxNamed ? " …" : ""}), and with broker.deviceCertificates the external broker knows devices by their names alone. Serve these fleets from homes of their own, or remove broker.deviceCertificates from server.json.`,
    { same: same.slice(0, 100) },
  );
