/** A recovery over HTTP: the report in a header, then the bytes. */
import { StemmaError } from "../../shared/errors.js";
import { modelOperations } from "../api/model-definitions.js";
import type { OperationInput, RecoveryStream } from "../api/server-operations.js";
import type { RecoveryReport } from "../api/version-schemas.js";
import { provenStream } from "../api/proven-stream.js";
import { checkAnswer } from "./check-answer.js";
import type { Connection, ServerAnswer } from "./request.js";
import { pathOf } from "./write-input.js";

export async function recoverOver(
  connection: Connection,
  input: OperationInput<"recover">,
  timeoutMs: number,
): Promise<RecoveryStream> {
  const answer = await connection.send({ path: pathOf(modelOperations.recover, input), timeoutMs });
  let report: RecoveryReport;
  let byteLength: number;
  try {
    report = checkAnswer(
      modelOperations.recover.output,
      parseHeader(answer.headers["stemma-recovery"]),
      connection.server,
    );
    byteLength = Number(answer.headers["content-length"]);
    if (!Number.isSafeInteger(byteLength))
      throw new StemmaError(
        "SERVER_UNREACHABLE",
        `${connection.server} answered a recovery without its length. Check that it is a Stemma server of this version.`,
      );
  } catch (error) {
    answer.body.destroy();
    throw error;
  }
  return streamOf(answer, report, byteLength);
}

function parseHeader(header: string | string[] | undefined): unknown {
  try {
    return JSON.parse(Buffer.from(String(header ?? ""), "base64url").toString("utf8"));
  } catch {
    // Refused by the check that follows.
    return undefined;
  }
}

function streamOf({ body }: ServerAnswer, report: RecoveryReport, byteLength: number): RecoveryStream {
  return provenStream({ expected: report, byteLength, chunks: bodyChunks(body, report, byteLength) });
}

async function* bodyChunks(
  body: ServerAnswer["body"],
  { name, version }: RecoveryReport,
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
    // The server holds the last chunk until the root is verified: a complete body is correct, and the
    // body of a damaged model breaks off.
    throw new StemmaError(
      "RECOVERY_INCOMPLETE",
      `The recovery of ${name}:${version} broke off after ${received} of ${byteLength} bytes; do not use any of it. \`stemma model verify\` shows whether the stored model is damaged.`,
      { cause, received, byteLength },
    );
  } finally {
    body.destroy();
  }
}
