/** Errors of the HTTP interface, sorted by who meets them: the client of a server, or the server. */
import * as z from "zod";
import { messageOf } from "../../../shared/error-text.js";
import type { OpeningProgress } from "../../storage/repository/home.js";
import { errorOf, StemmaError, type StemmaErrorDetails } from "../../../shared/errors.js";

const invalidRequest = errorOf("HTTP_REQUEST_INVALID");
const unreachable = errorOf("SERVER_UNREACHABLE");
const tooLarge = errorOf("SIZE_OVER_LIMIT");
const overQuota = errorOf("QUOTA_EXCEEDED");

// A client and its server's address.
export const notOfThisVersion = (server: string, how: string, details?: StemmaErrorDetails): StemmaError =>
  unreachable(`${server} ${how}. Check that a Stemma server of this version listens there.`, details);
export const certificateNotTrusted = (server: string, cause: unknown): StemmaError =>
  unreachable(
    `${server} has a certificate that is not trusted here (${messageOf(cause)}); nothing was sent to it. A server with its own authority has the file authority.pem in its home: copy it here and name it with STEMMA_CA=FILE, or with \`stemma context add --ca FILE\`.`,
    { cause },
  );
export const stillStarting = (
  home: string,
  {
    pid,
    startingAtMs,
    opening,
  }: { readonly pid: number; readonly startingAtMs: number; readonly opening?: OpeningProgress },
): StemmaError =>
  new StemmaError(
    "TIMED_OUT",
    `The server of ${home} (process ${pid}) is still starting, since ${new Date(startingAtMs).toISOString()}: ${whatIsOpened(opening)}. Try again later.`,
    { pid },
  );
export const stillOpening = (opening: OpeningProgress | undefined): StemmaError =>
  unreachable(`The server is starting: ${whatIsOpened(opening)}. Try again later.`);
/** Part of a sentence, without the fleet's name: not everyone may learn it. */
export function whatIsOpened({ packs, facts }: Partial<OpeningProgress> = {}): string {
  if (facts !== undefined) return `it has read ${facts.read} of the ${facts.all} facts of a fleet`;
  if (packs !== undefined) return `it has looked at ${packs.read} of ${packs.all} pack files of a fleet`;
  return "it reads what its fleets have stored";
}
export const jobWithoutEnd = (server: string, job: string, name: string): StemmaError =>
  new StemmaError(
    "INTERNAL",
    `The job ${job} (${name}) ended on ${server} without a report and without an error. Look at the server's log, then start the job again.`,
  );
export const answerBrokeOff = (server: string, cause: unknown): StemmaError =>
  unreachable(`The answer of ${server} broke off. Look at its log and try again.`, {
    cause,
  });
export const answerTooLong = (server: string, maxBytes: number): StemmaError =>
  tooLarge(`${server} answered with more than ${maxBytes} bytes. Ask for less at a time.`);

// A server and its requests.
const sendImportAgain = "Send it again with the stemma command, or as plain safetensors with ?name=.";
export const importEndedEarly = (bytes: number): StemmaError =>
  invalidRequest(
    `The import ended after ${bytes} bytes, before its options were complete. ${sendImportAgain}`,
  );
export const importNotJson = (cause: unknown): StemmaError =>
  invalidRequest(`The import's options are not JSON. ${sendImportAgain}`, { cause });
export const importOptionsTooLong = (length: number, maxBytes: number): StemmaError =>
  tooLarge(
    `The import's options state a length of ${length} bytes; at most ${maxBytes} are allowed. Leave large attachments out.`,
    { length },
  );
export const inputInvalid = (what: string, error: z.ZodError): StemmaError =>
  invalidRequest(`${what} not valid: ${z.prettifyError(error)}`);
export const noSuchJob = (fleet: string, noun: string, id: string, hint: string): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    `The fleet ${fleet} does not have the ${noun} ${id}; it may have ended before the server last started. ${hint}`,
    { job: id },
  );
export const tooManyJobs = (running: number, noun: string): StemmaError =>
  overQuota(
    `This server runs ${running} jobs of this kind (${noun}) already, which is its limit. Wait until one ends, or stop one.`,
    { running },
  );
export const tooManyCertificates = (waitMs: number): StemmaError =>
  overQuota(
    `Too many certificates were asked for from this address. Try again in ${Math.ceil(waitMs / 1000)} s.`,
  );
export const tokenMissing = (): StemmaError =>
  new StemmaError(
    "TOKEN_INVALID",
    "This server's HTTP port requires a bearer token. One is in the file http-token of the server's home, `stemma token add` makes others; give it in STEMMA_TOKEN, or work on the server's own machine with --home.",
  );
