/** What one question of `stemma doctor` answers. Types only. */

export interface Finding {
  readonly what: string;
  readonly state: "good" | "warning" | "wrong";
  readonly found: string;
  /** What to do; absent where all is well. */
  readonly advice?: string | undefined;
}

/** What is examined. */
export interface Subject {
  readonly home: string;
}
