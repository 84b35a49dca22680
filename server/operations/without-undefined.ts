/** Leaves out members that are undefined: callers in this process may pass them, HTTP never does. */
export function withoutUndefined<T extends object>(
  members: T,
): { readonly [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [Key in keyof T]: Exclude<T[Key], undefined>;
  };
}
