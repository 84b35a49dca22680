/** The server's key while the process has it: its signatures can be held back, as when the clock is in doubt. */
import type { StemmaError } from "../../../shared/errors.js";
import type { PrivateKey } from "../../../shared/trust/keys.js";

export class HoldableKey implements PrivateKey {
  readonly publicKey: string;
  readonly seed: string;
  #whyHeld: () => StemmaError | undefined = () => undefined;

  constructor(private readonly key: PrivateKey) {
    this.publicKey = key.publicKey;
    this.seed = key.seed;
  }

  /** @param why asked before each signature; an error: nothing is signed */
  holdWhile(why: () => StemmaError | undefined): void {
    this.#whyHeld = why;
  }

  /** The reason why nothing is signed now; undefined: the key may be used. */
  get whyHeld(): StemmaError | undefined {
    return this.#whyHeld();
  }

  /** @throws the reason why nothing is signed now */
  requireFree(): void {
    const { whyHeld } = this;
    if (whyHeld !== undefined) throw whyHeld;
  }

  /** @throws the reason why nothing is signed now */
  sign(message: Uint8Array): Uint8Array {
    this.requireFree();
    return this.key.sign(message);
  }
}
