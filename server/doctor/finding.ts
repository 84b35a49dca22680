/** What one question of `stemma doctor` finds. Types only. */

export interface Finding {
  /** The subject of the question, such as "disk". */
  readonly what: string;
  readonly state: "good" | "warning" | "wrong";
  readonly found: string;
  /** What to do; absent where the state is good. */
  readonly advice?: string | undefined;
}

/** What is examined. */
export interface Subject {
  readonly home: string;
}
