/** Facts about certificate authorities of the fleet's owner. Types only. (docs/own-authority.md) */
import type { Caused } from "./fact-members.js";

/** The treatment of an authority's devices when its revocation list has ended. */
export type EndedListPolicy = "serve" | "refuse";

export type AuthorityFact =
  /**
   * An authority of the fleet's owner: its certificates may name devices of this fleet. Another fact of the same name
   * replaces what was said before; what is known of its revocation lists stays.
   */
  | (Caused & {
      readonly type: "authority-added";
      readonly authority: string;
      /** PEM of what is trusted: a root, or what it issued to issue certificates. */
      readonly certificates: readonly string[];
      /** The form in which its certificates name a device (server/access/identity/name-form.ts). */
      readonly nameForm: string;
      readonly onEndedList: EndedListPolicy;
    })
  /** The removal: nothing of it is trusted any more. */
  | (Caused & {
      readonly type: "authority-removed";
      readonly authority: string;
      readonly because: string;
    })
  /**
   * The changes that a revocation list makes to what was known; a long one is several facts, of which the
   * last has `list`.
   */
  | (Caused & {
      readonly type: "authority-list";
      readonly authority: string;
      /** The signer of the list (issuerIdOf). */
      readonly issuer: string;
      /** Serial numbers that are revoked from now on, and those that are not any more: lower-case hex. */
      readonly revoked: readonly string[];
      readonly restored: readonly string[];
      readonly list?: {
        /** The number of the list, decimal. A lower one is not taken. */
        readonly number: string;
        readonly thisUpdateMs: number;
        readonly nextUpdateMs: number;
      };
    });
