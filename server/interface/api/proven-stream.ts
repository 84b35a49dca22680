/** The stream of a recovery, or of a data set. Its bytes count as verified only when it has ended. */
import { StemmaError } from "../../../shared/errors.js";
import type { ProvenStream } from "./server-operations.js";

/**
 * @param chunks the bytes; the iteration throws where they differ from the recorded ones, so that all are
 * verified once it has ended
 * @returns a stream whose report resolves with `expected` at that end, and rejects when the stream fails or
 * its reader stops early
 */
export function provenStream<Report>({
  expected,
  byteLength,
  chunks,
}: Pick<ProvenStream<Report>, "expected" | "byteLength" | "chunks">): ProvenStream<Report> {
  let settle: { resolve(report: Report): void; reject(error: unknown): void } | undefined;
  const report = new Promise<Report>((resolve, reject) => {
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
        settle?.reject(new StemmaError("RECOVERY_INCOMPLETE", "The stream was not read to its end."));
      }
    })(),
  };
}
