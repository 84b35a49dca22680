/** A small table of whole numbers, the same on every machine, from which every family for tables can learn. */

/** CSV of 120 rows: three inputs, a sum of two of them, two labels, and a class. */
export function exampleTable(): string {
  const rows = Array.from({ length: 120 }, (_, row) => {
    const [a, b, c] = [(row * 7) % 11, (row * 5) % 13, (row * 3) % 17];
    const labels = [a % 2, Number(b + c > 14)];
    return [a, b, c, 2 * a - b, ...labels, ["low", "middle", "high"][Math.floor((a + b) / 8)]].join(",");
  });
  return ["a,b,c,sum,odd,large,class", ...rows].join("\n");
}
