/**
 * A selection of a fleet's devices: one language for all commands (docs/selections.md). A selection is parsed
 * to this form; match-device.ts applies it to a device. Types only.
 */

export type Selection =
  | { readonly kind: "all" | "any"; readonly of: readonly Selection[] }
  | { readonly kind: "not"; readonly of: Selection }
  | Condition;

/** A condition on one property of a device. */
export type Condition =
  /** A text that is compared with a pattern, in which * stands for any characters and ? for one. */
  | { readonly kind: "name" | "profile" | "state" | "line"; readonly pattern: string }
  /** The value of a label; without a pattern: whether the device has the label. */
  | { readonly kind: "label"; readonly label: string; readonly pattern?: string }
  | { readonly kind: "online"; readonly is: boolean }
  /** Connected now, or at most this long ago; a device that was never connected was not. */
  | { readonly kind: "seen"; readonly withinMs: number }
  /** A line (any, where none is named) runs this model, or one that descends from it. */
  | {
      readonly kind: "runs" | "descends";
      readonly line?: string;
      /** The model as it was written: a name, name:version, name:tag or id. */
      readonly model: string;
    };
