/** The server's key as journals use it: who signs their heads, and the facts of its changes. */
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import type { HeadSigner } from "../../../shared/journal/journal.js";
import { isSignatureValid, type Signer } from "../../../shared/trust/keys.js";
import { keysBefore, type KeptKeyChange } from "../../access/identity/key-changes.js";
import type { HoldableKey } from "../../access/identity/server-key-hold.js";
import type { FleetRepository } from "./fleet-repository.js";
import type { Home } from "./home.js";
import type { FleetState } from "./state/state.js";

/** Heads that were kept before the key changed are of this server, too. */
export function headSigner({
  signer,
  keyChanges,
}: {
  readonly signer: Signer & Partial<Pick<HoldableKey, "requireFree">>;
  readonly keyChanges: readonly KeptKeyChange[];
}): HeadSigner {
  const keys = new Set([signer.publicKey, ...keysBefore(keyChanges)]);
  return {
    publicKey: signer.publicKey,
    requireFree: () => signer.requireFree?.(),
    sign: (message) => Buffer.from(signer.sign(message)).toString("hex"),
    verify: (message, signature, publicKey) =>
      keys.has(publicKey) && isSignatureValid(publicKey, message, signature),
  };
}

/**
 * Appends the facts of changes that the journal does not have: the key is changed while no fleet is open, and the
 * process may end before the change is a fact. Where the disk is full, the next opening does it.
 */
export async function noteKeyChanges(
  { serverKey }: Pick<FleetState, "serverKey">,
  { keyChanges, ports: { log } }: Pick<Home, "keyChanges" | "ports">,
  { fleet, append }: Pick<FleetRepository, "fleet" | "append">,
): Promise<void> {
  const noted = keyChanges.findLastIndex(({ change }) => change.to === serverKey?.publicKey);
  const missing = keyChanges.filter(
    (kept, index) => index > noted || (index === noted && isRevoked(kept) !== serverKey?.revoked),
  );
  if (missing.length === 0) return;
  const facts = missing.map((kept) => ({
    type: "server-key" as const,
    atMs: kept.revokedAtMs ?? kept.change.atMs,
    publicKey: kept.change.to,
    before: kept.change.from,
    revoked: isRevoked(kept),
    ...defined({ by: kept.by }),
  }));
  await append(...facts).catch((error: unknown) => {
    log?.warn("server-key-not-noted", { fleet, text: messageOf(error) });
  });
}

function isRevoked({ revokedAtMs }: KeptKeyChange): boolean {
  return revokedAtMs !== undefined;
}
