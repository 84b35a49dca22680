/** A body whose report is in a header: recoveries and data sets over HTTP. */
import type * as z from "zod";
import { StemmaError } from "../../../shared/errors.js";
import type { ValueOf } from "../api/operation.js";
import { provenStream } from "../api/proven-stream.js";
import type { ProvenStream } from "../api/server-operations.js";
import { checkAnswer } from "./check-answer.js";
import { notOfThisVersion } from "./http-errors.js";
import type { Connection, ServerAnswer } from "./request.js";

export interface ProvenBody<Schema extends z.ZodType> {
  readonly path: string;
  readonly timeoutMs: number;
  /** Name of the header that has the report, as base64url JSON. */
  readonly header: string;
  readonly schema: Schema;
  /** Describes the sent body, for the error where it breaks off, with the command that shows what is wrong. */
  readonly describe: (report: ValueOf<Schema>) => { readonly what: string; readonly hint: string };
}

/** @throws SERVER_UNREACHABLE, RECOVERY_INCOMPLETE while the body is read */
export async function requestProvenBody<Schema extends z.ZodType>(
  connection: Connection,
  { path, timeoutMs, header, schema, describe }: ProvenBody<Schema>,
): Promise<ProvenStream<ValueOf<Schema>>> {
  const answer = await connection.send({ path, timeoutMs });
  try {
    const expected = checkAnswer(schema, parseHeader(answer.headers[header]), connection.server);
    const byteLength = Number(answer.headers["content-length"]);
    if (!Number.isSafeInteger(byteLength))
      throw notOfThisVersion(connection.server, "answered without the length of its body");
    return provenStream<ValueOf<Schema>>({
      expected,
      byteLength,
      chunks: bodyChunks(answer.body, describe(expected), byteLength),
    });
  } catch (error) {
    answer.body.destroy();
    throw error;
  }
}

function parseHeader(header: string | string[] | undefined): unknown {
  try {
    return JSON.parse(Buffer.from(String(header ?? ""), "base64url").toString("utf8"));
  } catch {
    // Refused by the check that follows.
    return undefined;
  }
}

async function* bodyChunks(
  body: ServerAnswer["body"],
  { what, hint }: { readonly what: string; readonly hint: string },
  byteLength: number,
): AsyncGenerator<Uint8Array> {
  let received = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      received += chunk.length;
      yield chunk;
    }
    if (received !== byteLength) throw new Error(`received ${received} of ${byteLength} bytes`);
  } catch (cause) {
    // The server holds the last chunk until everything is verified: a complete body is correct, and one that is
    // damaged where it is stored breaks off.
    throw new StemmaError(
      "RECOVERY_INCOMPLETE",
      `${what} broke off after ${received} of ${byteLength} bytes; do not use any of it. ${hint}`,
      { cause, received, byteLength },
    );
  } finally {
    body.destroy();
  }
}
