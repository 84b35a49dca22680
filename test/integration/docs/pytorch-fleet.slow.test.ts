/** The page on a fleet that trains with PyTorch works as it is written, where Python has PyTorch. */
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { runPage } from "../../helpers/run-page.js";
import { builtPrograms } from "./built-programs.js";

function whyNot(): string | false {
  try {
    execFileSync("python3", ["-c", "import torch, numpy, safetensors"], { stdio: "ignore" });
    return false;
  } catch {
    return "python3 has no torch, numpy and safetensors";
  }
}

test(
  "two devices train with PyTorch, by the commands of docs/pytorch-fleet.md",
  { skip: whyNot() },
  async (t) => {
    await runPage("docs/pytorch-fleet.md", t, builtPrograms);
  },
);
