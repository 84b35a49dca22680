/**
 * The script of every page: it filters the rows of tables, and opens what a link points to or the printer needs. All
 * that a page says is there without it. It makes no HTML of texts.
 */
export const pageScript = `"use strict";
for (const place of document.querySelectorAll(".filter")) {
  const input = place.querySelector("input");
  const output = place.querySelector("output");
  const table = document.getElementById(input.dataset.filters);
  let groups;
  const filter = () => {
    groups ??= [...table.tBodies].map((group) => ({
      group,
      rows: [...group.rows].map((row) => ({ row, text: row.textContent.toLowerCase() })),
    }));
    const total = groups.reduce((sum, { rows }) => sum + rows.length, 0);
    const terms = input.value.toLowerCase().split(/\\s+/).filter((term) => term !== "");
    let found = 0;
    for (const { group, rows } of groups) {
      let any = false;
      for (const { row, text } of rows) {
        const shown = terms.every((term) => text.includes(term));
        if (row.hidden === shown) row.hidden = !shown;
        any ||= shown;
        found += Number(shown);
      }
      group.hidden = !any;
    }
    table.classList.toggle("filtered", terms.length > 0);
    output.textContent = terms.length === 0 ? "" : found + " of " + total + " shown";
  };
  let due = 0;
  input.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(filter, 60);
  });
  place.hidden = false;
  // Browsers keep what was entered when a page is loaded again.
  if (input.value !== "") filter();
}
const open = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target === null) return;
  const own = target.querySelector("details");
  if (own !== null && target.tagName === "TR") own.open = true;
  for (let at = target; at !== null; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView({ block: "center" });
};
addEventListener("hashchange", open);
if (location.hash !== "") open();
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.folded:not([open])")];
  for (const each of opened) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of opened) each.open = false;
});
`;
