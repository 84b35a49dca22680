/** Does what the checkout's ./stemma does once everything is built, for tests of pages. */
import { join } from "node:path";
import { repositoryRoot } from "../../helpers/markdown.js";

const program = `"${process.execPath}" "${join(repositoryRoot, "dist/test/helpers/bundled-program.mjs")}"`;
export const builtPrograms = { stemma: `${program} stemma`, agent: `${program} agent` };
