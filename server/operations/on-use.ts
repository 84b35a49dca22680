/** Operations whose module is loaded when one of them is used first: short commands need few. */
import type { CallName, CallOperations, ServerOperations } from "../api/server-operations.js";

/** @param load called once */
export function onUse<Name extends CallName>(
  names: readonly Name[],
  load: () => Promise<Pick<ServerOperations, Name>>,
): Pick<CallOperations, Name> {
  let loaded: ReturnType<typeof load> | undefined;
  type AnyCall = (input: unknown, options?: unknown) => Promise<unknown>;
  const operation =
    (name: Name): AnyCall =>
    async (input, options) => {
      const operations = (await (loaded ??= load())) as unknown as Readonly<Record<Name, AnyCall>>;
      return await operations[name](input, options);
    };
  return Object.fromEntries(names.map((name) => [name, operation(name)])) as unknown as Pick<
    CallOperations,
    Name
  >;
}
