/**
 * Pages in a browser, opened from the disk: nothing overlaps or is cut from 360 to 1440 pixels, dark and light; axe-core
 * finds nothing; hostile texts stay texts; no message, no request. Skipped, saying so, where no Chromium is installed.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type Page } from "playwright-core";
import { pageExamples } from "../../../helpers/page-examples.js";

const executablePath = [
  process.env["STEMMA_TEST_CHROMIUM"] ?? "",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => path !== "" && existsSync(path));
const skip = executablePath === undefined && "no Chromium is installed (apt-get install chromium)";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser: Browser;
let folder = "";
before(async () => {
  if (executablePath === undefined) return;
  folder = await mkdtemp(join(tmpdir(), "stemma-pages-"));
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(async () => {
  if (executablePath === undefined) return;
  await browser.close();
  await rm(folder, { recursive: true, force: true });
});

/** Opens a page; what the browser says or asks for is an error. */
async function opened(
  name: string,
  text: string,
  { width, isDark, hasScript = true }: { width: number; isDark: boolean; hasScript?: boolean },
): Promise<{ readonly page: Page; readonly said: string[] }> {
  const path = join(folder, `${name}.html`);
  await writeFile(path, text);
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: isDark ? "dark" : "light",
    javaScriptEnabled: hasScript,
  });
  const page = await context.newPage();
  const said: string[] = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(error.message));
  page.on("dialog", (dialog) => said.push(dialog.message()));
  page.on("request", (request) => {
    if (request.url() !== pathToFileURL(path).href) said.push(request.url());
  });
  await page.goto(pathToFileURL(path).href);
  return { page, said };
}

/** Runs in the page: names what is outside of the window, cut, or on top of a neighbour. */
const geometry = `(() => {
  const wrong = [];
  const nameOf = (element) => element.tagName + "." + element.className + " " + element.textContent.slice(0, 40);
  const shown = [...document.querySelectorAll("body *")].filter((element) => {
    if (element.closest("svg, script, style, thead") !== null) return false;
    return element.checkVisibility({ contentVisibilityAuto: true }) && element.getClientRects().length > 0;
  });
  for (const element of shown) {
    const { left, right } = element.getBoundingClientRect();
    if (left < -0.5 || right > innerWidth + 0.5) wrong.push("outside: " + nameOf(element));
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline")
      wrong.push("cut: " + nameOf(element));
  }
  const parents = new Set(shown.map((element) => element.parentElement));
  for (const parent of parents) {
    const boxes = [...parent.children]
      .filter((element) => shown.includes(element) && getComputedStyle(element).position !== "absolute")
      .flatMap((element) => [...element.getClientRects()].map((box) => ({ element, box })));
    for (let one = 0; one < boxes.length; one++)
      for (let other = one + 1; other < Math.min(boxes.length, one + 40); other++) {
        const [a, b] = [boxes[one], boxes[other]];
        if (a.element === b.element) continue;
        const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        const isText = getComputedStyle(a.element).display === "inline";
        if (wide > 1 && high > (isText ? 6 : 1)) wrong.push("overlap: " + nameOf(a.element) + " | " + nameOf(b.element));
      }
  }
  return wrong.slice(0, 10);
})()`;

for (const [name, make] of Object.entries(pageExamples))
  test(`${name}: geometry, accessibility, silence`, { skip }, async () => {
    const text = make();
    for (const [width, isDark] of [
      [360, true],
      [768, false],
      [1440, true],
      [1440, false],
    ] as const) {
      const { page, said } = await opened(name, text, { width, isDark });
      const at = `${name} at ${width}, ${isDark ? "dark" : "light"}`;
      assert.deepEqual(await page.evaluate(geometry), [], at);
      // Everything opens: the geometry holds then as well.
      await page.evaluate(
        `for (const each of [...document.querySelectorAll("details")].slice(0, 60)) each.open = true`,
      );
      assert.deepEqual(await page.evaluate(geometry), [], `${at}, opened`);
      await page.evaluate(axe);
      const violations = await page.evaluate(
        `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
          violations.map(({ id, nodes }) => id + ": " + nodes[0].html.slice(0, 200) + nodes[0].failureSummary))`,
      );
      assert.deepEqual(violations, [], at);
      assert.equal(await page.evaluate("globalThis.broken"), undefined);
      assert.deepEqual(said, [], at);
      await page.context().close();
    }
  });
