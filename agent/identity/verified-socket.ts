/**
 * A TLS connection to the server whose certificate was judged before a byte is sent. TLS itself accepts any certificate
 * here, because it would judge by this device's clock; no session is resumed, so each connection is judged.
 */
import { connect, type TLSSocket } from "node:tls";
import { tunnel } from "../../shared/adapters/proxy.js";
import { connectionError } from "../../shared/connection-error.js";
import { defined } from "../../shared/defined.js";
import { peerChain } from "../../shared/trust/certificates/peer-chain.js";
import { urlHost } from "../../shared/url-host.js";
import { isUntimely, type ChainVerdict } from "../../shared/trust/certificates/verify-chain.js";
import { serverRefused, serverSilent } from "./identity-errors.js";

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
      fail(serverSilent(host, port, timeoutMs));
    });
    socket.once("error", fail);
    socket.once("secureConnect", () => {
      const found = judge(peerChain(socket));
      const isTaken = found.verdict === "trusted" || (takesUntimely && isUntimely(found));
      if (!isTaken || socket.isSessionReused()) {
        fail(serverRefused(found, host, port));
        return;
      }
      socket.setTimeout(0);
      socket.removeListener("error", fail);
      resolve(socket);
    });
  });
}
