/**
 * The network of a simulated device: connections as over its link, which breaks now and then, and is not there for a
 * while after that. Implements what the agent's link asks of a device's identity.
 */
import { once } from "node:events";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import type { Clock } from "../../shared/ports.js";
import type { LinkShape } from "../../shared/simulation/link-shapes.js";
import type { LinkIdentity } from "../link/link.js";
import { ShapedSocket } from "./shaped-socket.js";

export interface SimulatedLinkOptions {
  readonly shape: LinkShape;
  readonly clock: Clock;
  readonly draw: () => number;
}

const connectMs = 30_000;
const hourMs = 3_600_000;

export class SimulatedLink {
  bytesUp = 0;
  bytesDown = 0;
  breaks = 0;
  /** The certificate authority that the enrolment pins for a server with certificate files. */
  ca: string | undefined;
  #offlineUntilMs = 0;

  constructor(private readonly options: SimulatedLinkOptions) {}

  /** True if the device has a network now. */
  get isThere(): boolean {
    return this.options.clock.monotonic() >= this.#offlineUntilMs;
  }

  /** Returns the identity with this link in the place of the machine's network. */
  identity(own: LinkIdentity): LinkIdentity {
    return {
      judges: () => true,
      dial: async (address) => {
        if (!this.isThere)
          throw new StemmaError("SERVER_UNREACHABLE", "The simulated link is broken for a while.");
        const socket = own.judges(address) ? await own.dial(address) : await this.#open(address);
        return this.#shaped(socket);
      },
      renewIfDue: (wasRefused) => own.renewIfDue(wasRefused),
      get ended() {
        return own.ended;
      },
    };
  }

  async #open(address: string): Promise<Duplex> {
    const isTls = address.startsWith("mqtts:");
    const { hostname, port } = new URL(address.replace(/^mqtts?:/, "https:"));
    const target = {
      host: hostname.replace(/^\[(.*)\]$/, "$1"),
      port: port === "" ? (isTls ? 8883 : 1883) : Number(port),
    };
    const { ca } = this;
    const socket = isTls ? connectTls({ ...target, ...defined({ ca }) }) : connect(target);
    socket.setNoDelay(true);
    socket.setTimeout(connectMs, () => socket.destroy(new Error("The server did not answer in time.")));
    await once(socket, isTls ? "secureConnect" : "connect");
    socket.setTimeout(0);
    return socket;
  }

  #shaped(socket: Duplex): Duplex {
    const { shape, clock, draw } = this.options;
    const shaped = new ShapedSocket(socket, {
      shape,
      clock,
      draw,
      onBytes: (up, down) => {
        this.bytesUp += up;
        this.bytesDown += down;
      },
    });
    if (shape.breaksPerHour > 0) {
      const cancel = clock.after(this.#exponential(hourMs / shape.breaksPerHour), () => {
        this.breaks++;
        this.#offlineUntilMs = clock.monotonic() + this.#exponential(shape.offlineMs);
        shaped.destroy();
      });
      shaped.once("close", cancel);
    }
    return shaped;
  }

  #exponential(meanMs: number): number {
    return -meanMs * Math.log(1 - this.options.draw());
  }
}
