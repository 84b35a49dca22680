/** A CSV table with two numbers and a target that follows from them, the same each time. */

/** @param rows at least 10 */
export function tableText({
  rows = 200,
  separator = ",",
}: { rows?: number; separator?: string } = {}): string {
  const lines = [["age", "temperature", "wear"].join(separator)];
  for (let row = 0; row < rows; row++) {
    const age = (row * 37) % 101;
    const temperature = (row * 53) % 47;
    lines.push([age, temperature, (age * 0.03 + temperature * 0.02).toFixed(3)].join(separator));
  }
  return `${lines.join("\n")}\n`;
}
