/** An object with some of its methods replaced. The others run on the object itself, which may be of a class. */
export function withOverrides<T extends object>(target: T, overrides: Partial<T>): T {
  return new Proxy(target, {
    get(inner, name) {
      if (name in overrides) return Reflect.get(overrides, name) as unknown;
      const member: unknown = Reflect.get(inner, name, inner);
      return typeof member === "function" ? (member.bind(inner) as unknown) : member;
    },
  });
}
