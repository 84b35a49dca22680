// Draws captured terminal text as an SVG for the README:
//   node docs/terminal-picture.mjs TITLE < text > picture.svg
import { readFileSync } from "node:fs";

const [title = ""] = process.argv.slice(2);
const lines = readFileSync(0, "utf8")
  .replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "")
  .replace(/\s+$/, "")
  .split("\n");
const character = { width: 7.25, height: 17 };
const margin = 16;
const bar = 28;
const width = Math.ceil(
  Math.max(...lines.map((line) => line.length), title.length) * character.width + 2 * margin,
);
const height = bar + lines.length * character.height + 2 * margin;
const escape = (text) =>
  text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
/** Headings blue, faults red, successes green. */
const colourOf = (line) =>
  /^\s*(VEHICLE|DEVICE|fleet)\b/.test(line)
    ? "#8ab4f8"
    : /kill -9|\bNO\b|\bquarantined -/.test(line)
      ? "#f28b82"
      : /exact|goes on|yes\s*$/.test(line)
        ? "#81c995"
        : "#e8eaed";
const rows = lines.map(
  (line, index) =>
    `<text x="${margin}" y="${bar + margin + (index + 0.75) * character.height}" fill="${colourOf(line)}" textLength="${(line.length * character.width).toFixed(1)}" xml:space="preserve">${escape(line)}</text>`,
);
process.stdout
  .write(`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12">
<rect width="100%" height="100%" rx="8" fill="#1f2023"/><rect width="100%" height="${bar}" rx="8" fill="#35363a"/>
<circle cx="18" cy="14" r="5" fill="#f28b82"/><circle cx="36" cy="14" r="5" fill="#fdd663"/><circle cx="54" cy="14" r="5" fill="#81c995"/>
<text x="${width / 2}" y="18" fill="#bdc1c6" text-anchor="middle">${escape(title)}</text>
${rows.join("\n")}
</svg>
`);
