import { headMessage } from "../../shared/journal/head-message.js";
import type { JournalHead, SignedHead } from "../../shared/journal/journal.js";
import type { Signer } from "../../shared/trust/keys.js";

/** A head signed by a server's key, as the journal signs it. */
export function signHead(server: Signer, head: JournalHead): SignedHead {
  return {
    length: head.length,
    chain: head.chain,
    root: head.root,
    publicKey: server.publicKey,
    signature: Buffer.from(server.sign(headMessage(head))).toString("hex"),
  };
}
