/**
 * Sets up the server's side of TLS with its own authority. Its certificate for the addresses that devices use is made
 * at each start and again in time; it also judges devices' certificates. The key of the certificate is only in memory.
 */
import { hostname } from "node:os";
import type { Clock, Random } from "../../../shared/ports.js";
import type { PrivateKey } from "../../../shared/trust/keys.js";
import { overlapOf, type KeptKeyChange } from "./key-changes.js";
import { openAuthority, serverCertificateMs, type Authority, type ServerIdentity } from "./authority.js";
import { certificateJudge, type CertificateJudge } from "./judge-certificate.js";

export interface ServerTlsParts {
  readonly serverKey: PrivateKey;
  /** The earlier changes of that key. */
  readonly keyChanges: readonly KeptKeyChange[];
  readonly clock: Clock;
  readonly random: Random;
  /** The hosts where devices and people reach the server: names, IP addresses. */
  readonly hosts: readonly string[];
  /** @throws CLOCK_NOT_TRUSTED */
  readonly requireClock?: (() => void) | undefined;
  readonly onRenewFailed: (error: unknown) => void;
}

export interface ServerTls {
  readonly authority: Authority;
  readonly identity: ServerIdentity;
  onRenewed(use: (renewed: ServerIdentity) => void): void;
  readonly judge: CertificateJudge;
  close(): void;
}

/** A clock that was wrong at the start and is set later makes a certificate that has expired, or soon. */
const checkMs = 60_000;

export async function openServerTls(parts: ServerTlsParts): Promise<ServerTls> {
  const { serverKey, keyChanges, clock, random, onRenewFailed } = parts;
  const authority = await openAuthority(serverKey, random);
  /** Devices that trust only the authority before find the bridge to it in the chain, while that one is good. */
  const issue = async (): Promise<ServerIdentity> => {
    parts.requireClock?.();
    const issued = await authority.issueForServer(hosts, clock.now());
    const bridge = overlapOf(keyChanges, clock.now())?.bridge;
    return bridge === undefined ? issued : { ...issued, cert: `${issued.cert}\n${bridge}\n` };
  };
  const hosts = certificateHosts(parts.hosts);
  const users: ((renewed: ServerIdentity) => void)[] = [];
  let identity = await issue();
  const renew = async (): Promise<void> => {
    if (identity.notAfterMs - clock.now() > (serverCertificateMs * 2) / 3) return;
    identity = await issue();
    for (const use of users) use(identity);
  };
  let isClosed = false;
  let cancel: () => void = () => undefined;
  const check = (): void => {
    if (isClosed) return;
    cancel = clock.after(checkMs, () => {
      void renew().catch(onRenewFailed).finally(check);
    });
  };
  check();
  return {
    authority,
    get identity() {
      return identity;
    },
    onRenewed: (use) => {
      users.push(use);
    },
    judge: certificateJudge({ authority, keyChanges, clock }),
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}

/** The hosts that a certificate can name, with those of this machine. */
function certificateHosts(hosts: readonly string[]): readonly string[] {
  const named = hosts
    .map((host) => host.replace(/^\[(.*)\]$/, "$1"))
    .filter((host) => /^[A-Za-z0-9._:-]+$/.test(host) && host !== "0.0.0.0" && host !== "::");
  return [...new Set([...named, "localhost", "127.0.0.1", "::1", hostname()])];
}
