/** The stream of a recovery, which is verified when it has ended. */
import { StemmaError } from "../../shared/errors.js";
import type { RecoveryStream } from "./server-operations.js";
import type { RecoveryReport } from "./version-schemas.js";

/**
 * @param chunks throws where the bytes differ from the recorded ones; they are verified once it has ended
 * @returns a stream whose report resolves with `expected` at that end, and rejects when the stream fails or
 * is left early
 */
export function provenStream({
  expected,
  byteLength,
  chunks,
}: Pick<RecoveryStream, "expected" | "byteLength" | "chunks">): RecoveryStream {
  let settle: { resolve(report: RecoveryReport): void; reject(error: unknown): void } | undefined;
  const report = new Promise<RecoveryReport>((resolve, reject) => {
    settle = { resolve, reject };
  });
  report.catch(() => undefined); // its reader may come later, or never
  return {
    byteLength,
    expected,
    report,
    chunks: (async function* () {
      try {
        yield* chunks;
        settle?.resolve(expected);
      } catch (error) {
        settle?.reject(error);
        throw error;
      } finally {
        settle?.reject(new StemmaError("RECOVERY_INCOMPLETE", "The recovery was not read to its end."));
      }
    })(),
  };
}
