/** Operations on the tokens of the HTTP port. */
import type { ServerOperations } from "../interface/api/server-operations.js";
import type { OperationsContext } from "../services/context/operations-context.js";
import { addToken, listTokens, removeToken } from "../interface/http/tokens.js";

export function tokenOperations({
  home,
}: Pick<OperationsContext, "home">): Pick<ServerOperations, "tokens" | "addToken" | "removeToken"> {
  const { files } = home.ports;
  return {
    tokens: () => listTokens(files, home.path),
    addToken: async ({ name, role }) => ({
      name,
      role,
      token: await addToken(home.ports, home.path, { name, role }),
    }),
    removeToken: async ({ name }) => {
      await removeToken(files, home.path, name);
      return listTokens(files, home.path);
    },
  };
}
