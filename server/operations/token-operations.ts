/** Operations on the tokens of the HTTP port. */
import type { ServerOperations } from "../interface/api/server-operations.js";
import type { OperationsContext } from "../services/context/operations-context.js";
import { addToken, listTokens, removeToken } from "../interface/http/tokens.js";

export function tokenOperations({
  home,
  fleets: known,
}: Pick<OperationsContext, "home" | "fleets">): Pick<
  ServerOperations,
  "tokens" | "addToken" | "removeToken"
> {
  const { files } = home.ports;
  return {
    tokens: () => listTokens(files, home.path),
    addToken: async (input) => {
      // A name that is misspelt would be a token that reaches nothing, until a fleet gets that name.
      for (const fleet of input.fleets ?? []) await known.get(fleet);
      const { madeAtMs: _, ...made } = await addToken(home.ports, home.path, input);
      return made;
    },
    removeToken: async ({ name }) => {
      await removeToken(files, home.path, name);
      return listTokens(files, home.path);
    },
  };
}
