/**
 * A TLS connection to the server whose certificate was judged before a byte is sent. TLS itself accepts any certificate
 * here, because it would judge by this device's clock; no session is resumed, so each connection is judged.
 */
import { connect, type TLSSocket } from "node:tls";
import { tunnel } from "../../shared/adapters/proxy.js";
import { connectionError } from "../../shared/connection-error.js";
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import { peerChain } from "../../shared/trust/certificates/peer-chain.js";
import { urlHost } from "../../shared/url-host.js";
import { isUntimely, type ChainVerdict } from "../../shared/trust/certificates/verify-chain.js";

export interface VerifiedSocketOptions {
  readonly host: string;
  readonly port: number;
  /** The proxy that the connection goes through; undefined: none. */
  readonly proxy?: URL | undefined;
  /** The certificate of this device and its key, PEM. */
  readonly identity?: { readonly certificate: string; readonly key: string } | undefined;
  readonly judge: (chain: readonly Uint8Array[]) => ChainVerdict;
  /** True: a certificate that is refused for its validity alone will do. */
  readonly takesUntimely?: boolean;
  readonly timeoutMs: number;
}

/** @throws CERTIFICATE_REFUSED, SERVER_UNREACHABLE, TIMED_OUT */
export async function openVerifiedSocket(options: VerifiedSocketOptions): Promise<TLSSocket> {
  const { host, port, proxy, identity, judge, takesUntimely = false, timeoutMs } = options;
  const through = proxy === undefined ? undefined : await tunnel(proxy, { host, port }, timeoutMs);
  return new Promise((resolve, reject) => {
    const socket = connect({
      ...(through === undefined ? { host, port } : { socket: through }),
      ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }),
      minVersion: "TLSv1.2",
      rejectUnauthorized: false,
      ...defined({ cert: identity?.certificate, key: identity?.key }),
    });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(connectionError(`The server at ${urlHost(host)}:${port}`, error));
    };
    socket.setTimeout(timeoutMs, () => {
      fail(
        new StemmaError(
          "TIMED_OUT",
          `The server at ${urlHost(host)}:${port} did not answer within ${timeoutMs / 1000} s. Wait until the network is up, or check the address and the firewalls on the way.`,
        ),
      );
    });
    socket.once("error", fail);
    socket.once("secureConnect", () => {
      const found = judge(peerChain(socket));
      const isTaken = found.verdict === "trusted" || (takesUntimely && isUntimely(found));
      if (!isTaken || socket.isSessionReused()) {
        fail(isUntimely(found) ? untimely(found, `${host}:${port}`) : untrusted(found, { host, port }));
        return;
      }
      socket.setTimeout(0);
      socket.removeListener("error", fail);
      resolve(socket);
    });
  });
}

function untrusted(
  found: ChainVerdict,
  { host, port }: { readonly host: string; readonly port: number },
): StemmaError {
  const why = found.verdict === "refused" ? found.why : `it is ${found.verdict}`;
  return new StemmaError(
    "CERTIFICATE_REFUSED",
    `The certificate of the server at ${host}:${port} is not trusted (${why}); nothing was sent to it. It may be another server, or the address leads through something that ends TLS. If the server's key was replaced more than once while this device was away, or longer ago than both keys were good, renew by files (\`stemma agent renew --request FILE\`); if the one before was withdrawn, enrol it again (\`stemma device enroll\` at the server).`,
    { host, port },
  );
}

/** The error of a certificate that is good but for the time that this device believes; its details say so. */
function untimely(found: ChainVerdict, address: string): StemmaError {
  const why =
    found.verdict === "expired"
      ? `it ended on ${new Date(found.certificate.chainEndsMs).toISOString()}`
      : found.verdict === "refused"
        ? found.why
        : "";
  return new StemmaError(
    "CERTIFICATE_REFUSED",
    `The certificate of the server at ${address} is not valid at the time that this device learned (${why}); nothing was sent to it but the question what the fleet's owner says of the time. If the clock of the server was ahead once, or is behind now, set it right, start the server again, and let the owner state the time (\`stemma release time\`); without releases, enrol the device again (\`stemma device enroll\` at the server).`,
    { address, isUntimely: true },
  );
}
