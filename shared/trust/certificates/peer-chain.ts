/** The certificates that the other side of a TLS connection showed, the peer's own first, DER. */
import type { DetailedPeerCertificate, TLSSocket } from "node:tls";
import { maxChainLength } from "./verify-chain.js";

export function peerChain(socket: TLSSocket): readonly Uint8Array[] {
  const chain: Uint8Array[] = [];
  let next = socket.getPeerCertificate(true) as Partial<DetailedPeerCertificate> | null;
  // One more than is read, so that a chain which is too long is refused. A root is its own issuer.
  while (next?.raw !== undefined && chain.length <= maxChainLength) {
    chain.push(next.raw);
    const issuer: Partial<DetailedPeerCertificate> | undefined = next.issuerCertificate;
    if (issuer === next) break;
    next = issuer ?? null;
  }
  return chain;
}
