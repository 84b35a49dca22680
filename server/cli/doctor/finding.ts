/** The answer to one question of `stemma doctor`. Types only. */

export interface Finding {
  /** The subject of the question, such as "disk". */
  readonly what: string;
  readonly state: "good" | "warning" | "wrong";
  readonly found: string;
  /** Advice on what to do; absent where the state is good. */
  readonly advice?: string | undefined;
}

/** The home that is examined. */
export interface Subject {
  readonly home: string;
}
