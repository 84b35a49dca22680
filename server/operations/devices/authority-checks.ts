/**
 * Looks after the authorities of fleets' owners in a running server. It ends connections whose certificate
 * has ended, and says each day what an owner has to see to.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { messageWithCode } from "../../../shared/error-text.js";
import type { Clock, Log } from "../../../shared/ports.js";

const checkMs = 60_000;
const repeatMs = 86_400_000;

export interface AuthorityChecks {
  /** Resolves when the check that runs has ended. */
  close(): Promise<void>;
}

export function startAuthorityChecks({
  cutOffEnded,
  warnings,
  clock,
  log,
}: {
  readonly cutOffEnded: (onCutOff: (fleet: string, device: string, because: string) => void) => Promise<void>;
  readonly warnings: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "after" | "monotonic">;
  readonly log: Log;
}): AuthorityChecks {
  const runs = new SerialQueue();
  let isClosed = false;
  let cancel: () => void = () => undefined;
  let warnedAtMs = -Infinity;
  const check = async (): Promise<void> => {
    try {
      await cutOffEnded((fleet, device, because) => {
        log.warn("certificate-ended", { fleet, device, text: `${fleet}/${device} was cut off: ${because}` });
      });
      if (clock.monotonic() - warnedAtMs < repeatMs) return;
      warnedAtMs = clock.monotonic();
      for (const text of await warnings()) log.warn("authority-ends", { text });
    } catch (error) {
      log.error("authority-check-failed", { text: messageWithCode(error) });
    }
  };
  const next = (): void => {
    if (isClosed) return;
    cancel = clock.after(checkMs, () => {
      void runs.run(check).finally(next);
    });
  };
  void runs.run(check).finally(next);
  return {
    close: async () => {
      isClosed = true;
      cancel();
      await runs.run(() => Promise.resolve());
    },
  };
}
