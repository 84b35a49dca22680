/**
 * Pages in a browser, opened from the disk: nothing overlaps or is cut from 360 to 1440 pixels, dark and light;
 * axe-core finds nothing; hostile texts stay texts; no message, no request. Skipped where no Chromium is installed.
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
import { listedVersions, listPage, pageExamples } from "../../../helpers/page-examples.js";

const executablePath = ["chromium", "chromium-browser", "google-chrome"]
  .map((name) => join("/usr/bin", name))
  .find((path) => existsSync(path));
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

/** Runs in the page: names what is outside of the window or cut, and texts on top of each other. */
const geometry = `(() => {
  const wrong = [];
  const nameOf = (element) => element.tagName + "." + element.className + " " + element.textContent.slice(0, 40);
  const shown = [...document.querySelectorAll("body *:not(tbody:nth-of-type(n+3) *)")].filter((element) => {
    const thead = element.closest("thead");
    if (element.closest("svg, script, style") !== null) return false;
    if (thead !== null && getComputedStyle(thead).position === "absolute") return false;
    return element.checkVisibility({ contentVisibilityAuto: true }) && element.getClientRects().length > 0;
  });
  const texts = [];
  for (const element of shown) {
    const { left, right } = element.getBoundingClientRect();
    if (left < -0.5 || right > innerWidth + 0.5) wrong.push("outside: " + nameOf(element));
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline")
      wrong.push("cut: " + nameOf(element));
    for (const node of element.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || node.data.trim() === "") continue;
      const range = new Range();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) texts.push({ node, element, box });
    }
  }
  texts.sort((a, b) => a.box.top - b.box.top);
  texts.forEach(({ node, element, box }, at) => {
    for (let next = at + 1; next < texts.length && texts[next].box.top < box.bottom - 3; next++) {
      const other = texts[next];
      const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
      if (other.node !== node && wide > 1) wrong.push("overlap: " + nameOf(element) + " | " + nameOf(other.element));
    }
  });
  return wrong.slice(0, 10);
})()`;

const shortList = (): string => listPage(listedVersions(300, (at) => `model-${at % 7}`));
const run = async (page: Page, script: string): Promise<unknown> => page.evaluate(script);
const openAll = `for (const each of [...document.querySelectorAll("details")].slice(0, 60)) each.open = true`;
const violations = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => id + ": " + nodes[0].html.slice(0, 200) + nodes[0].failureSummary))`;

const windows = [
  { width: 360, isDark: true, isChecked: true },
  { width: 768, isDark: false, isChecked: false },
  { width: 1440, isDark: false, isChecked: true },
];
for (const [name, { make, isLarge }] of Object.entries(pageExamples))
  test(`${name}: nothing overlaps, is cut, is said or asked for`, { skip }, async () => {
    const text = make();
    for (const { isChecked, ...window } of windows.filter(({ width }) => !isLarge || width === 1440)) {
      const at = `${name} at ${window.width}`;
      const { page, said } = await opened(name, text, window);
      assert.deepEqual(await run(page, geometry), [], at);
      await run(page, openAll);
      assert.deepEqual(await run(page, geometry), [], `${at}, opened`);
      if (isChecked && !isLarge) {
        await run(page, axe);
        assert.deepEqual(await run(page, violations), [], at);
      }
      assert.equal(await run(page, "globalThis.broken"), undefined);
      assert.deepEqual(said, [], at);
      await page.context().close();
    }
  });

test("the geometry check sees rows on top of each other and cut texts", { skip }, async () => {
  const text = pageExamples["a list of hostile names"]?.make() ?? "";
  const { page } = await opened("wrong", text, { width: 360, isDark: false });
  for (const [style, kind] of [
    ["tr { block-size: 10px }", "overlap"],
    ["body { inline-size: 500px }", "outside"],
    ["td { overflow: hidden; white-space: nowrap }", "cut"],
  ] as const) {
    await run(
      page,
      `document.adoptedStyleSheets = [new CSSStyleSheet()];
      document.adoptedStyleSheets[0].replaceSync(${JSON.stringify(style)})`,
    );
    const wrong = (await run(page, geometry)) as readonly string[];
    assert.ok(
      wrong.some((each) => each.startsWith(kind)),
      `${kind}: ${wrong.join("\n")}`,
    );
  }
  await page.context().close();
});

test("a list is complete without a script", { skip }, async () => {
  const { page } = await opened("list", shortList(), { width: 768, isDark: false, hasScript: false });
  assert.equal(await page.locator("tbody tr").count(), 300);
  assert.equal(await page.locator("input").isVisible(), false);
  await page.context().close();
});

test("a list is filtered, opened and followed by the keyboard", { skip }, async () => {
  const { page } = await opened("list", shortList(), { width: 1440, isDark: false });
  await page.keyboard.press("Tab");
  await page.keyboard.type("model-5:300");
  await page.getByText("1 of 300 shown").waitFor();
  assert.equal(await page.locator("tbody tr:visible").count(), 1);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("tr:visible details[open] dd").first().isVisible(), true);
  await page.locator("input").fill("");
  await page.locator("tbody a").first().press("Enter");
  await page.locator("tr:target details[open]").waitFor();
  await page.context().close();
});
