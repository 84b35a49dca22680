/** The hub that a command names: a remembered server or a URL, with the fleet there that models go to or come from. */
import { currentUser } from "../../../shared/adapters/current-user.js";
import { StemmaError } from "../../../shared/errors.js";
import { readAuthority } from "../context.js";
import { contextNamed, readContexts, type NamedServer } from "../contexts.js";
import type { End } from "./copy-bundle.js";

export const hubText =
  "<hub> the hub: a name of `stemma context`, or its URL (token in STEMMA_TOKEN); default the current one";
export const namespaceText = "<fleet> the fleet of the hub (default: that of the context)";

/**
 * @param named absent: the current context. The caller closes its operations
 * @throws USAGE where no server or no fleet is known, NOT_FOUND for an unknown context
 */
export async function openHub(named: string | undefined, namespace: string | undefined): Promise<End> {
  const { server, token, authority, fleet } = serverOf(named);
  const inFleet = namespace ?? fleet;
  if (inFleet === undefined)
    throw new StemmaError("USAGE", "Name the fleet of the hub with --namespace FLEET.");
  const { connectOperations } = await import("../../interface/http/client.js");
  return {
    operations: connectOperations({ url: server, token, authority, user: currentUser() }),
    fleet: inFleet,
  };
}

function serverOf(named: string | undefined): NamedServer {
  const { STEMMA_TOKEN: token, STEMMA_CA: file } = process.env;
  if (named !== undefined && /^https?:\/\//.test(named)) {
    const authority = readAuthority(file);
    return {
      server: named,
      ...(token === undefined ? {} : { token }),
      ...(authority === undefined ? {} : { authority }),
    };
  }
  const contexts = readContexts();
  const name = named ?? contexts.current;
  if (name === undefined)
    throw new StemmaError(
      "USAGE",
      "No hub is known. Name one with --to or --from, by its URL or by the name that `stemma context add NAME --at URL` " +
        "gives it.",
    );
  return contextNamed(contexts, name);
}
