/** The details of an error that can be sent as JSON; not the cause. */
export function plainDetails(details: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(details).filter(
      ([name, value]) => name !== "cause" && ["string", "number", "boolean"].includes(typeof value),
    ),
  );
}
