/** Refuses files of the server's machine to those who may not name them. Pure. */
import { isUrl } from "../../../shared/data/data-url.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Grant } from "../../interface/api/rights.js";

/** The server's disk has other fleets' files. @throws NOT_ALLOWED */
export function requireReachableData(
  grant: Grant | undefined,
  { kind, location }: { readonly kind?: string | undefined; readonly location: string },
): void {
  const isOfServer = kind === "sql" || (location !== "" && !isUrl(location));
  if (grant?.fleets === undefined || !isOfServer) return;
  throw new StemmaError(
    "NOT_ALLOWED",
    "A token that is limited to fleets cannot name files of the server's machine. Name a URL, or have the data " +
      "registered on the server's own machine with --home.",
  );
}
