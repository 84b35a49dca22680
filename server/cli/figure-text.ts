/** A measured figure for people; JSON has no infinity, so one that is not finite may have come as null. */
export function figureText(value: number | null, unit: string): string {
  if (value === null || !Number.isFinite(value)) return "not finite";
  return `${value.toFixed(3)}${unit === "" ? "" : ` ${unit}`}`;
}
