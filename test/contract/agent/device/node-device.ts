/** The agent as the contract suite runs it: its own program, asked over its control socket. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { callAgent } from "../../../../agent/control/json-line-client.js";
import { readRunFile } from "../../../../agent/home/agent-home.js";
import type { AgentStatus } from "../../../../agent/status.js";
import { isErrorCode, StemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { loadEnrolment, sealEnrolment } from "../../../../shared/trust/enrolment.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { runAgentHere } from "../../../helpers/run-stemma-here.js";
import { spawnStemma } from "../../../helpers/run-stemma.js";
import type { DeviceKind } from "./device-port.js";

export const nodeDevice: DeviceKind = {
  async enrol(home, invitation, owned) {
    await mkdir(home, { recursive: true, mode: 0o700 });
    if (owned !== undefined)
      await writeFile(join(home, "agent.json"), JSON.stringify({ format: 1, certificate: owned }));
    const { status, stderr } = await runAgentHere(["enroll", invitation, "--home", home]);
    if (status === 0) return;
    const code = /\[([A-Z_]+)\]/.exec(stderr)?.[1] ?? "";
    throw new StemmaError(isErrorCode(code) ? code : "INTERNAL", stderr);
  },

  async replaceCertificate(home, { issue, issuedAtMs, hasHttps }) {
    const path = join(home, "enrolment.json");
    const { identity, http, ...rest } = await loadEnrolment(nodeFiles(), path);
    assert.ok(identity !== undefined && http !== undefined);
    const certificate = await issue(identity.key);
    const changed = {
      ...rest,
      identity: { ...identity, certificate, issuedAtMs },
      ...(hasHttps ? { http } : {}),
    };
    await writeFile(path, JSON.stringify(sealEnrolment(changed)));
  },

  async start(home) {
    const child = spawnStemma(["run", "--home", home, "--log", "json"], {}, "agent");
    child.stdout.resume();
    const problems: string[] = [];
    createInterface({ input: child.stderr }).on("line", (line) => {
      const { level, text, code } = JSON.parse(line) as { level: number; text?: string; code?: string };
      if (level >= 40) problems.push(`${text ?? ""} [${code ?? ""}]`);
    });
    const ended = once(child, "close");
    const control = await pollUntil("the agent's sockets", async () => {
      if (child.exitCode !== null) throw new Error(`the agent ended: ${problems.join("\n")}`);
      const run = await readRunFile(nodeFiles(), home).catch(() => undefined);
      return run?.pid === child.pid ? run?.control : undefined;
    });
    const end = async (signal: NodeJS.Signals): Promise<void> => {
      child.kill(signal);
      await ended;
    };
    return {
      save: async (line, file) =>
        ((await callAgent(control, { do: "save", line, file })) as { versionId: string }).versionId,
      standing: async (versionId) => {
        const { lines } = (await callAgent(control, { do: "status" })) as AgentStatus;
        return lines.flatMap(({ versions }) => versions).find((one) => one.versionId === versionId)?.standing;
      },
      versions: async (line) => {
        const { lines } = (await callAgent(control, { do: "status" })) as AgentStatus;
        const found = lines.find((each) => each.line === line);
        return (found?.versions ?? []).map(({ versionId }) => versionId);
      },
      problems: () => Promise.resolve(problems),
      stop: () => end("SIGTERM"),
      kill: () => end("SIGKILL"),
    };
  },
};
