/** Sends a request for a certificate to the server over HTTPS and reads its answer. */
import { request as httpRequest } from "node:http";
import type { Socket } from "node:net";
import { connectionProblem } from "../../shared/connection-error.js";
import { isErrorCode, StemmaError } from "../../shared/errors.js";
import type { CertificateRequest } from "../../shared/trust/certificates/certificate-exchange.js";
import { parseJson } from "../../shared/trust/keys.js";
import { noCertificateFrom } from "./identity-errors.js";

const path = "/v1/certificates";
const maxAnswerBytes = 256 * 1024;
const answerMs = 60_000;

/**
 * @param base URL of the server
 * @param socket a connection to it whose certificate was judged
 * @throws the server's own error, SERVER_UNREACHABLE
 */
export async function postRequest(base: URL, socket: Socket, request: CertificateRequest): Promise<unknown> {
  const body = Buffer.from(JSON.stringify({ request }));
  const { status, bytes } = await new Promise<{ status: number; bytes: Buffer }>((resolve, reject) => {
    const sent = httpRequest(
      {
        createConnection: () => socket,
        method: "POST",
        path: `${base.pathname.replace(/\/$/, "")}${path}`,
        headers: { host: base.host, "content-type": "application/json", "content-length": body.length },
        timeout: answerMs,
      },
      (answer) => {
        const pieces: Buffer[] = [];
        let length = 0;
        answer.on("data", (piece: Buffer) => {
          pieces.push(piece);
          length += piece.length;
          if (length > maxAnswerBytes) answer.destroy(new Error("the answer is too long"));
        });
        answer.on("error", reject);
        answer.on("end", () => {
          resolve({ status: answer.statusCode ?? 0, bytes: Buffer.concat(pieces) });
        });
      },
    );
    sent.on("timeout", () => {
      sent.destroy(new Error("it was silent for too long"));
    });
    sent.on("error", reject);
    sent.end(body);
  })
    .catch((cause: unknown) => {
      throw noCertificateFrom(base.href, connectionProblem(cause).why, cause);
    })
    .finally(() => {
      socket.destroy();
    });
  const value = parseJson(bytes);
  if (status === 200) return value;
  const { code, message } = (value ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code === "string" && isErrorCode(code) && typeof message === "string")
    throw new StemmaError(code, message);
  throw noCertificateFrom(base.href, `it answered with the status ${status}`);
}
