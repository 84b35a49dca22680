/**
 * A process with simulated devices. `stemma fleet simulate` starts it and sends it orders; it ends with that command,
 * however that ends, and leaves nothing behind: all that its devices have is in its memory.
 */
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { HostOrder } from "../../shared/simulation/simulation-messages.js";
import { DeviceHost } from "./device-host.js";

const host = new DeviceHost();

process.on("disconnect", () => {
  process.exit(0);
});
// Ctrl-C, and the end of the terminal, go to every process of it; the command decides what happens then.
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => undefined);
process.on("message", ({ number, order }: { readonly number: number; readonly order: HostOrder }) => {
  host.perform(order).then(
    (value) => {
      process.send?.({ number, value });
    },
    (error: unknown) => {
      const code = isStemmaError(error) ? error.code : "INTERNAL";
      process.send?.({ number, error: { code, message: messageOf(error) } });
    },
  );
});
