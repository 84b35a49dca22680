/**
 * The embedded broker: aedes behind guards. Sockets are admitted and metered before aedes reads them. Clients
 * are bound to the identity of their credentials. A device's messages go straight to the server's handler,
 * and the server's messages straight to the device's client, so that neither waits for a subscriber that has
 * stopped reading. Knows topics, not the meaning of envelopes.
 */
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { constants } from "node:crypto";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import type { Clock, Log } from "../../../shared/ports.js";
import { urlHost } from "../../../shared/url-host.js";
import { AedesBroker, type AedesBrokerOptions } from "./aedes-broker.js";
import { addressNotUsable, portNotUsable } from "./broker-errors.js";
import { defaultBrokerLimits, type BrokerLimits } from "./broker-limits.js";
import type { Authenticate, BrokerEvent, EventHandler, RunningBroker } from "./broker-port.js";
import { Connections } from "./connections.js";
import { writeInRecords } from "./write-in-records.js";

/** The broker's key and certificate, PEM. */
export interface CertificateAndKey {
  readonly key: string;
  readonly cert: string;
}

export interface BrokerTls extends CertificateAndKey {
  /** True if devices are asked for their certificates, which `authenticate` then judges. */
  readonly asksDevices?: boolean;
  /** Calls `use` with each newer certificate. */
  readonly onRenewed?: (use: (renewed: CertificateAndKey) => void) => void;
}

export interface BrokerOptions {
  /** Root topic; every topic of the protocol is below it. */
  readonly root: string;
  readonly authenticate: Authenticate;
  readonly clock: Clock;
  readonly log: Log;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: a free port. */
  readonly port?: number;
  /** The certificate and key with which the broker uses mqtts. */
  readonly tls?: BrokerTls;
  readonly limits?: Partial<BrokerLimits>;
}
export interface EmbeddedBroker extends RunningBroker {
  readonly port: number;
}

/** Starts listening. @throws PORT_TAKEN */
export async function startBroker(options: BrokerOptions): Promise<EmbeddedBroker> {
  const { host = "127.0.0.1", port = 0, clock, log } = options;
  const limits: BrokerLimits = { ...defaultBrokerLimits, ...options.limits };
  const handlers: EventHandler[] = [];
  const emit = (event: BrokerEvent): void => {
    log.debug(`broker-${event.type}`, { ...event });
    for (const handler of handlers) handler(event);
  };
  const connections = new Connections(limits, clock, emit);
  const brokerOptions: AedesBrokerOptions = {
    root: options.root,
    authenticate: options.authenticate,
    clock,
    log,
    limits,
    connections,
    emit,
    onEvent: (handler) => {
      handlers.push(handler);
    },
  };
  const broker = await AedesBroker.start(brokerOptions);
  const serve = (socket: Socket): void => {
    if (connections.open(socket) !== undefined) broker.handle(socket);
  };
  const server =
    options.tls === undefined
      ? createServer((socket) => {
          if (connections.arrive(socket)) serve(socket);
        })
      : tlsServer({ ...options.tls, limits, connections, serve, emit });
  // Includes the sockets that are about to be refused or evicted.
  server.maxConnections = limits.maxConnections + limits.maxUnknownConnections;
  try {
    await listen(server, host, port);
  } catch (error) {
    connections.close();
    await broker.close();
    throw error;
  }
  const actualPort = (server.address() as AddressInfo).port;
  return Object.assign(broker.port(), {
    port: actualPort,
    url: `${options.tls === undefined ? "mqtt" : "mqtts"}://${urlHost(host)}:${actualPort}`,
    close: async () => {
      const closed = new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
      await broker.close();
      connections.close();
      await closed;
    },
  });
}

interface TlsServerOptions extends BrokerTls {
  readonly limits: BrokerLimits;
  readonly connections: Connections;
  /** Takes a socket whose TLS handshake is complete. */
  readonly serve: (socket: Socket) => void;
  readonly emit: (event: BrokerEvent) => void;
}

function tlsServer({ limits, connections, serve, emit, ...tls }: TlsServerOptions): Server {
  const context = (given: CertificateAndKey): TlsOptions => ({
    key: given.key,
    cert: given.cert,
    minVersion: tls.asksDevices === true ? "TLSv1.3" : "TLSv1.2",
    // A session is never resumed: each connection shows its certificate again.
    secureOptions: constants.SSL_OP_NO_TICKET,
  });
  const server = createTlsServer(
    {
      ...context(tls),
      handshakeTimeout: limits.connectDeadlineMs,
      // What TLS finds out about a certificate by this machine's clock does not decide.
      ...(tls.asksDevices === true && { requestCert: true, rejectUnauthorized: false }),
    },
    (socket) => {
      writeInRecords(socket);
      serve(socket);
    },
  );
  tls.onRenewed?.((renewed) => {
    server.setSecureContext(context(renewed));
  });
  // A TLS handshake costs work before the client is known, so sockets are admitted before it.
  server.on("connection", (socket: Socket) => {
    connections.arrive(socket);
  });
  server.on("tlsClientError", (error, { remoteAddress: address }) => {
    // It is closed already: by a guard, which has said so, or by the other side.
    if (address === undefined) return;
    const reason = `no TLS came about: ${error.message}`;
    emit({ type: "connection-refused", address, reason, code: "CERTIFICATE_REFUSED" });
  });
  return server;
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      reject(
        cause.code === "EADDRINUSE" || cause.code === "EACCES"
          ? portNotUsable(port, host, cause)
          : addressNotUsable(port, host, cause),
      );
    });
    server.listen(port, host, () => {
      resolve();
    });
  });
}
