/** The error for a home that another process holds or may hold: which one, where it runs, and what to do. */
import { StemmaError } from "../errors.js";
import type { ClaimFacts, ClaimVerdict } from "./claim-verdict.js";
import { leaseMs } from "./claim-verdict.js";
import type { LockHolder } from "./home-claim.js";

/** The claim of another process, with what is known of it. */
export interface OtherClaim {
  readonly path: string;
  /** The process; undefined where its claim cannot be read. */
  readonly holder: LockHolder | undefined;
  readonly facts: ClaimFacts;
  readonly verdict: ClaimVerdict;
  /** Name of the file system. */
  readonly fileSystem: string;
}

/** Names the process of a claim, and where it ran as far as that is known. */
export function describeClaim({ path, holder, facts: { boot, machine, namespace } }: OtherClaim): string {
  if (holder === undefined) return `a process that is not known, since its claim ${path} cannot be read`;
  const place =
    boot === "same"
      ? namespace === "same"
        ? `on this machine`
        : `on this machine, in another container or process namespace (host name ${holder.host})`
      : machine === "same"
        ? `on this machine before it was started again (host name ${holder.host})`
        : `on ${machine === "other" ? "another machine" : "a machine that is not known"} (host name ${holder.host})`;
  return `process ${holder.pid} (${holder.command}) ${place}, since ${new Date(holder.sinceMs).toISOString()}`;
}

/** The reason why no proof can be had. */
function doubtOf({ holder, facts: { boot, namespace, files, machine }, fileSystem }: OtherClaim): string {
  if (holder === undefined) return "the claim cannot be read";
  if (files !== "local" && boot !== "same") return `machines may share this file system (${fileSystem})`;
  if (boot === "same" && namespace !== "same")
    return "its socket cannot be asked, and its process is not seen here";
  if (boot !== "same" && machine !== "same") return "whether it is of this machine is not known";
  return "neither its socket nor its process can be asked";
}

/** @returns HOME_LOCKED */
export function homeLocked(home: string, other: OtherClaim): StemmaError {
  const { path, holder, verdict, facts } = other;
  return new StemmaError("HOME_LOCKED", messageOf(home, other), {
    home,
    holder: holder ?? null,
    claim: path,
    verdict,
    ...(verdict.startsWith("lease") ? { ageMs: Math.round(facts.ageMs) } : {}),
  });
}

function messageOf(home: string, other: OtherClaim): string {
  const { path, verdict, facts } = other;
  const process = describeClaim(other);
  if (verdict === "alive")
    return `${home} is in use by ${process}. Wait until it has ended, stop it, send the command to it (--server), or use another --home.`;
  const doubt = `${home} was taken by ${process}. Whether that process still runs cannot be checked from here: ${doubtOf(other)}.`;
  const age = `${Math.max(0, Math.round(facts.ageMs / 1000))} s ago`;
  if (verdict === "lease-valid")
    return `${doubt} Its claim was renewed ${age}. Stop it there; if it has ended without a word, try again ${leaseMs / 1000} s after that.`;
  if (verdict === "lease-over")
    return `${doubt} Its claim was last renewed ${age}. Make sure that it has ended, then take the home over with --take-over (stemma server, or stemma agent run, save, enroll, renew).`;
  return `${doubt} Make sure that it has ended, then remove ${path} and try again.`;
}
