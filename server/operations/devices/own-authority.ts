/** Opens the server's own authority, of the running server or for one command. */
import type { OperationsContext } from "../../services/context/operations-context.js";
import { openAuthority, type Authority } from "../../access/identity/authority.js";

export function authorityOf({ live, home }: OperationsContext): Promise<Authority> | Authority {
  return live?.authority ?? openAuthority(home.signer, home.ports.random);
}
