/** The members of an answer that may be shown: a token's hash stays in the home, in whatever it is recorded. */
export function withoutTokenHash<T extends object>(members: T): Omit<T, "tokenHash"> {
  const { tokenHash: _, ...shown } = members as T & { readonly tokenHash?: unknown };
  return shown;
}
