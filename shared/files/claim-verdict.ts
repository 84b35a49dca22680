/**
 * Decides from facts about a claim on a home whether its process is dead. Pure: claim-facts.ts finds the facts.
 *
 * A claim is dead by proof only. Each proof rests on one of two things: on the same boot, this kernel would
 * know a living holder (its socket, or its process in the same namespace); and a local disk belongs to one
 * kernel at a time. Equal host names, process numbers of another namespace and times of this machine's clock
 * prove nothing. Where no proof can be had, a renewed claim has a lease, and any other one stays held.
 */

/** Facts about another process's claim, as this process sees them; `unknown` where it cannot see them. */
export interface ClaimFacts {
  /** The claim's content. `empty`: no byte other than zero, as a power cut leaves it. `damaged`: unreadable. */
  readonly content: "complete" | "empty" | "damaged";
  /** The kernel's boot id. */
  readonly boot: "same" | "other" | "unknown";
  readonly machine: "same" | "other" | "unknown";
  /** The process namespace. */
  readonly namespace: "same" | "other" | "unknown";
  /** The holder's socket in the lock folder. `absent`: there is no such socket. */
  readonly socket: "answers" | "refuses" | "absent" | "unknown";
  /**
   * The process with the claim's number in this process's namespace. `alive`: with the claim's start time;
   * `replaced`: with another one.
   */
  readonly process: "alive" | "gone" | "replaced" | "unknown";
  /** `local`: a file system that one kernel at a time has mounted. */
  readonly files: "local" | "shared" | "unknown";
  /** The mounted file system through which the holder reached the files; meaningful on the same boot. */
  readonly mount: "same" | "other" | "unknown";
  /** The holder renews the claim. */
  readonly renewed: boolean;
  /** Time since the claim was renewed, by the file system's own clock. */
  readonly ageMs: number;
}

/**
 * `lease-valid` and `lease-over`: no proof, and the holder had to renew. `unknown`: no proof and no lease.
 */
export type ClaimVerdict = "alive" | "dead" | "lease-valid" | "lease-over" | "unknown";

/** A claim that was not renewed for this long may be taken over by somebody who says so. */
export const leaseMs = 60_000;

export function judgeClaim(facts: ClaimFacts): ClaimVerdict {
  if (facts.socket === "answers") return "alive";
  if (facts.boot === "same") return judgeOnThisBoot(facts) ?? judgeLease(facts);
  return isDeadOnLocalDisk(facts) ? "dead" : judgeLease(facts);
}

/** Judges a claim of this boot, whose kernel knows both the holder's socket and its process. */
function judgeOnThisBoot({
  socket,
  files,
  mount,
  namespace,
  process,
}: ClaimFacts): "alive" | "dead" | undefined {
  // Two mounts of one remote folder have two sockets of one name, and only the holder's own one answers.
  if (socket === "refuses" && (files === "local" || mount === "same")) return "dead";
  if (namespace !== "same") return undefined;
  if (process === "alive") return "alive";
  return process === "unknown" ? undefined : "dead";
}

/**
 * A local disk has one kernel at a time, so a holder that lives runs on this one: not one of an earlier boot,
 * and not one whose socket refuses. A claim reaches its name complete; this kernel would show a living holder's
 * bytes, so one without bytes was left by a power cut. A disk that came from another machine is left to the
 * lease: its claim may be older than the move.
 */
function isDeadOnLocalDisk({ files, machine, boot, socket, content }: ClaimFacts): boolean {
  if (files !== "local" || machine === "other") return false;
  return (boot === "other" && machine === "same") || socket === "refuses" || content === "empty";
}

/** Judges by age: a renewed claim's says that its holder may be gone; on a disk that moved, nobody alive renews. */
function judgeLease({ renewed, ageMs, files, machine, boot }: ClaimFacts): ClaimVerdict {
  const moved = files === "local" && machine === "other" && boot === "other";
  if (!renewed && !moved) return "unknown";
  return ageMs < leaseMs ? "lease-valid" : "lease-over";
}
