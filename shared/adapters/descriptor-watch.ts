/**
 * Notices when this process has no file descriptor left. Nothing else does: connections that come then are accepted and
 * closed by the runtime, which tells nobody, and a device sees a server that hangs up.
 */
import { closeSync, openSync } from "node:fs";
import { isOutOfDescriptors } from "../connection-error.js";
import { messageOf } from "../error-text.js";
import type { Clock, Log } from "../ports.js";

const lookMs = 1_000;
/** Milliseconds between two lines of the log about it. */
const quietMs = 60_000;

export interface DescriptorWatch {
  /** Seconds since the start in which there was none. */
  readonly seconds: number;
  close(): void;
}

/** @param open opens a file and closes it */
export function watchDescriptors(
  { clock, log }: { readonly clock: Pick<Clock, "monotonic" | "after">; readonly log: Log },
  open = openOne,
): DescriptorWatch {
  let seconds = 0;
  let saidAtMs = -Infinity;
  const look = (): void => {
    try {
      open();
    } catch (error) {
      if (isOutOfDescriptors(error)) {
        seconds++;
        if (clock.monotonic() - saidAtMs >= quietMs) {
          saidAtMs = clock.monotonic();
          const text = `no file descriptor is left (${messageOf(error)}): new connections are closed unheard, and files cannot be opened. Raise the limit (LimitNOFILE= of the service, ulimit -n); ${seconds} s of this since the start`;
          log.error("descriptors-exhausted", { seconds, text });
        }
      }
    }
    cancel = clock.after(lookMs, look);
  };
  let cancel = clock.after(lookMs, look);
  return {
    get seconds() {
      return seconds;
    },
    close: () => {
      cancel();
    },
  };
}

function openOne(): void {
  closeSync(openSync("/dev/null", "r"));
}
