/** Refuses files of the server's machine to those who may not name them. Pure. */
import { isUrl } from "../../../shared/data/data-url.js";
import type { Grant } from "../../interface/api/rights.js";
import { fileNotForToken } from "./data-errors.js";

/** The server's disk has other fleets' files. @throws NOT_ALLOWED */
export function requireReachableData(
  grant: Grant | undefined,
  { kind, location }: { readonly kind?: string | undefined; readonly location: string },
): void {
  const isOfServer = kind === "sql" || (location !== "" && !isUrl(location));
  if (grant?.fleets === undefined || !isOfServer) return;
  throw fileNotForToken();
}
