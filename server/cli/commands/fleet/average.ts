/** `stemma fleet average`: the average of the newest models of a line on devices. */
import { describeFleetAverage } from "../../average-text.js";
import { plain } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

export const average = plain("averageFleet", {
  name: "average",
  about: "save the average of a line's newest models on the selected devices",
  takes: { line: "the line" },
  options: {
    select: { text: "<selection> which devices: docs/selections.md", flags: "--on <selection>" },
    name: "<name> of the new version; absent: that of the line, with -average",
    weights: "<by> samples: counts that the devices state, capped (default); equal",
    maxWeight: "<n>",
    outliers:
      "<n> leave out models further from the median than n times the median distance; 0: none (default 3)",
    dryRun: "only say which models would be taken",
  },
  help: `
Devices are not believed. Counts of samples are theirs to state: no count is
more than --max-weight times the median count, and no weight more than all
others together. Left out, each with its reason: models with NaN or infinite
numbers, of another architecture than most, far from the median of all,
reduced, retired, or not stored; and devices that are revoked or quarantined.

  stemma fleet average soh --on all --dry-run
  stemma fleet average soh --on 'label.region=eu' --name soh-eu
  stemma model eval soh-eu --data NAME
  stemma rollout create eu soh-eu --line soh --on 'label.region=eu'
`,
  print: (report, { line }, { output }) => ({
    names: report.summary === null ? [] : [nameOf(report.summary)],
    text: output.wrap(describeFleetAverage(report, line)),
  }),
});
