/** Colours, coordinates and text for the benchmarks' charts. Pure. */

/** Distinguishable to the colour-blind too (Okabe and Ito). */
const colours = ["#999999", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00"] as const;

export function colourOf(index: number): string {
  return colours[index % colours.length]!;
}
/** To tenths of a pixel. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
export function escape(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
