/** A comparison of two runs as text for people. Pure. */
import { criteria, type Finding, type RunComparison } from "./criteria.js";

const width = Math.max(...criteria.map(({ length }) => length)) + 2;

/** Says which criterion fails first, and of each what is known. Nothing is called equal that neither side has. */
export function describeComparison({ verdict, findings, first }: RunComparison): string[] {
  return [verdictText(verdict, findings, first), ...findings.map(line), "  training time is not compared"];
}

function verdictText(
  verdict: RunComparison["verdict"],
  findings: readonly Finding[],
  first: Finding | undefined,
): string {
  const equal = findings.filter((each) => each.verdict === "equal").length;
  switch (verdict) {
    case "different":
      return `different: the first criterion that fails is ${first?.criterion ?? "unknown"}`;
    case "equal":
      return equal === findings.length
        ? `equal by all ${equal} criteria`
        : `equal by ${equal} of ${findings.length} criteria; the others are not recorded, so nothing is said of them`;
    case "incomplete":
      return `equal by ${equal} of ${findings.length} criteria, but one side lacks what the other has`;
    case "nothing":
      return "nothing was compared: no criterion is recorded on both sides";
  }
}

function line({ criterion, verdict, text }: Finding): string {
  // Names of tensors and samples are another program's; none of them begins a line of its own.
  const shown = text === "" ? verdict : `${verdict}: ${text.replaceAll("\n", " ")}`;
  return `  ${criterion.padEnd(width)}${shown}`;
}
