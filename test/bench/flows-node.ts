/**
 * A node of MMlib's distributed flow (§4.6): an agent in a process of its own, with a store of its own, that fine-tunes
 * the model which its line runs again and again and reports each over MQTT. `startNode` forks this file.
 */
import { fork, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startAgent, type AgentHandle } from "../../agent/main.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { collectBytes, testProfile, WaitableLog } from "../helpers/agent-fixtures.js";
import { isOfVersion } from "../helpers/agent-test-environment.js";
import { fineTuned } from "../helpers/related-tensors.js";
import { updateSize } from "./flows-plan.js";
import { saveFloor, type Named } from "./save-floors.js";

export const flowLine = "model";
/** With it this file runs as a node. */
const nodeArgument = "node-of-a-flow";

export interface NodeSettings {
  /** The agent's home; the node makes it. */
  readonly home: string;
  readonly enrolment: Enrolment;
  readonly approach: "snapshot" | "update";
}

/** What a node saved, in the order of its saves. */
export interface NodeSave {
  readonly versionId: Hash;
  readonly base: Hash | null;
  /** Milliseconds from the file to the version that is durable on the device. */
  readonly saveMs: number;
  /** Milliseconds of SHA-256 of all bytes and one fsynced write of them, measured by the same node. */
  readonly floorMs: number;
  /** SHA-256 of the bytes of all tensors, in the order of their names. */
  readonly content: string;
}

type Order =
  | ({ readonly do: "start" } & NodeSettings)
  | { readonly do: "await"; readonly versionId: Hash }
  | { readonly do: "phase"; readonly count: number; readonly seed: number }
  | { readonly do: "end" };

export interface FlowNode {
  /** Resolves when the line runs this version. */
  awaitVersion(versionId: Hash): Promise<void>;
  /** Fine-tunes `count` times from what the line runs, and saves each; resolves when all are durable on the device. */
  runPhase(count: number, seed: number): Promise<readonly NodeSave[]>;
  end(): Promise<void>;
  kill(): void;
}

export async function startNode(settings: NodeSettings): Promise<FlowNode> {
  const child = fork(fileURLToPath(import.meta.url), [nodeArgument]);
  const order = (one: Order): Promise<unknown> => answerOf(child, one);
  await order({ do: "start", ...settings });
  return {
    awaitVersion: async (versionId) => {
      await order({ do: "await", versionId });
    },
    runPhase: async (count, seed) => (await order({ do: "phase", count, seed })) as readonly NodeSave[],
    end: async () => {
      await order({ do: "end" });
    },
    kill: () => {
      if (child.exitCode === null) child.kill("SIGKILL");
    },
  };
}

/** @throws Error where the node ended instead */
async function answerOf(child: ChildProcess, order: Order): Promise<unknown> {
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`A node of the flow ended with ${String(code)}.`);
  });
  ended.catch(() => undefined);
  const answer = once(child, "message");
  child.send(order);
  const [{ value }] = (await Promise.race([answer, ended])) as [{ readonly value: unknown }];
  return value;
}

/** SHA-256 of the bytes of tensors in the order of their names. */
export function contentOf(tensors: readonly Named[]): string {
  const hash = createHash("sha256");
  for (const { bytes } of tensors.toSorted((a, b) => (a.name < b.name ? -1 : 1))) hash.update(bytes);
  return hash.digest("hex");
}

/** What `runNode` keeps between two orders. */
interface RunningNode {
  readonly agent: AgentHandle;
  readonly log: WaitableLog;
  readonly home: string;
}

async function startHere({ home, enrolment, approach }: NodeSettings): Promise<RunningNode> {
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
  const log = new WaitableLog();
  const profile = testProfile({
    "save.approach": approach,
    "link.blockBytes": 262_144,
    "disk.budgetBytes": 4 * 2 ** 30,
    activation: "after-receipt",
  });
  const agent = await startAgent({ home, config: { format: 1 }, profile: { ...profile }, log });
  return { agent, log, home };
}

/** The model that the line runs, as a program of the device reads it. */
async function runningModel(home: string): Promise<readonly Named[]> {
  const path = join(home, "current", flowLine, "model.safetensors");
  const file = await readSafetensors(fileOfBytes(await readFile(path)), path);
  return await Promise.all(
    file.tensors.map(async (entry) => ({
      name: entry.name,
      ...(await tensorOfSource(file.source(entry))),
    })),
  );
}

async function savePhase(
  { agent, home }: RunningNode,
  { count, seed }: { readonly count: number; readonly seed: number },
): Promise<readonly NodeSave[]> {
  const saves: NodeSave[] = [];
  let tensors = await runningModel(home);
  for (let number = 0; number < count; number++) {
    tensors = tensors.map((tensor, i) => ({
      name: tensor.name,
      ...fineTuned(tensor, updateSize, seed + 1000 * number + i),
    }));
    const file = join(home, "trained.safetensors");
    const parts = tensors.map((tensor) => ({ name: tensor.name, source: sourceOfTensor(tensor) }));
    await writeFile(file, await collectBytes(safetensorsChunks(parts)));
    const floor = (): Promise<number> => saveFloor(home, tensors, tensors);
    // Which side is first alternates, so that neither always profits from the other's caches.
    const early = number % 2 === 0 ? await floor() : undefined;
    const base = saves.at(-1)?.versionId;
    const startedMs = performance.now();
    const saved = await agent.save(flowLine, { file, ...(base === undefined ? {} : { base }) });
    const saveMs = performance.now() - startedMs;
    const floorMs = early ?? (await floor());
    saves.push({
      versionId: saved.versionId,
      base: saved.base,
      saveMs,
      floorMs,
      content: contentOf(tensors),
    });
  }
  return saves;
}

function runNode(): void {
  let node: RunningNode | undefined;
  const perform = async (order: Order): Promise<unknown> => {
    if (order.do === "start") {
      node = await startHere(order);
      return null;
    }
    if (node === undefined) throw new Error("The node was not started.");
    if (order.do === "await") {
      await node.log.until("activated", 1, isOfVersion(order.versionId));
      return null;
    }
    if (order.do === "phase") return await savePhase(node, order);
    await node.agent.close();
    return null;
  };
  process.on("disconnect", () => {
    process.exit(0);
  });
  process.on("message", (order: Order) => {
    perform(order).then(
      (value) => {
        process.send?.({ value });
        if (order.do === "end") process.disconnect();
      },
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
}

if (process.argv[2] === nodeArgument) runNode();
