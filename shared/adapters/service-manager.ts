/**
 * Tells the service manager (systemd, `Type=notify`) that this process is ready, that it stops, and while its event
 * loop turns, that it lives. Node has no datagram sockets of Unix, so `systemd-notify` says it; the unit needs
 * `NotifyAccess=all`. Without NOTIFY_SOCKET in the environment nothing is done.
 */
import { spawn } from "node:child_process";

export interface ServiceManager {
  /** Ends the signs of life and says that the process is stopping. */
  stopping(): void;
}

interface ServicePorts {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly notify: (words: readonly string[]) => void;
  /** Calls `act` again and again, without keeping the process; returns the way to end it. */
  readonly every: (milliseconds: number, act: () => void) => () => void;
}

const realPorts: ServicePorts = {
  environment: process.env,
  notify: (words) => {
    // systemd's own time-out of the start says so, too, where the program is missing.
    spawn("systemd-notify", [...words], { stdio: "ignore" })
      .on("error", (error) => {
        process.stderr.write(
          `systemd-notify ${words.join(" ")}: ${error.message}. The unit needs Type=exec.\n`,
        );
      })
      .unref();
  },
  every: (milliseconds, act) => {
    const timer = setInterval(act, milliseconds).unref();
    return () => {
      clearInterval(timer);
    };
  },
};

/** Says that the start goes on, and that the next word comes within this time. */
export function extendStart(milliseconds: number, ports: ServicePorts = realPorts): void {
  const { NOTIFY_SOCKET: socket } = ports.environment;
  if (socket !== undefined && socket !== "") ports.notify([`EXTEND_TIMEOUT_USEC=${milliseconds * 1000}`]);
}

/** Says that the process is ready, and from then on that it lives, three times in each period that it has for that. */
export function tellServiceManager(ports: ServicePorts = realPorts): ServiceManager {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: microseconds } = ports.environment;
  if (socket === undefined || socket === "") return { stopping: () => undefined };
  ports.notify(["--ready"]);
  const periodMs = Number(microseconds ?? 0) / 1000;
  const end =
    periodMs > 0
      ? ports.every(periodMs / 3, () => {
          ports.notify(["WATCHDOG=1"]);
        })
      : undefined;
  return {
    stopping: () => {
      end?.();
      ports.notify(["STOPPING=1"]);
    },
  };
}
