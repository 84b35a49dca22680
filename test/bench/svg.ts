/** Colours, coordinates and text for the benchmarks' charts. Pure. */

/** Distinguishable to the colour-blind too (Okabe and Ito). */
const colours = ["#999999", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00"] as const;

export function colourOf(index: number): string {
  return colours[index % colours.length]!;
}
/**
 * The outline of a series' marker around a point: circle, square, diamond, triangles, plus, so that markers in
 * one place are told apart.
 */
export function markerOf(index: number, x: number, y: number): string {
  const shapes = [
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "m-3.5 -3.5h7v7h-7z",
    "m0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z",
    "m0 -4.6l4.4 7.6h-8.8z",
    "m0 4.6l4.4 -7.6h-8.8z",
    "m-1.6 -4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
  ] as const;
  return `M${x} ${y}${shapes[index % shapes.length]!}`;
}
/** To tenths of a pixel. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
export function escape(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
