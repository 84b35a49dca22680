/**
 * The members that are defined, in their order: a member whose value is undefined is left out, as
 * `exactOptionalPropertyTypes` wants it.
 */
export function defined<const T extends object>(members: T): Defined<T> {
  const present: Record<string, unknown> = {};
  for (const name in members) if (members[name] !== undefined) present[name] = members[name];
  return present as Defined<T>;
}

/** The members of `T`; those that may be undefined are optional. */
export type Defined<T> = {
  -readonly [Key in keyof T as undefined extends T[Key] ? never : Key]: T[Key];
} & {
  -readonly [Key in keyof T as undefined extends T[Key] ? Key : never]?: Exclude<T[Key], undefined>;
};
