// The rooms of `npm run mutants`: parts whose files decide by their arguments alone, so that tests in one process can
// hold them. What carries decisions out (files, sockets, timers) is left to integration and fault tests.
import { readdirSync } from "node:fs";
import { join } from "node:path";

const inFolder = (folder, names) => names.map((name) => `${folder}/${name}.ts`);

/** Each room's folder with all of its files, or those files of a folder that decide. */
const rooms = {
  rollout: {
    files: inFolder("server/fleet/rollout", [
      "choose-devices",
      "evidence",
      "family",
      "gates",
      "judge-device",
      "live-trial",
      "next-answer",
      "next-step",
      "places",
      "plan-transfers",
      "policy",
      "rollout-report",
      "switch-refused",
      "transfer-times",
      "undo",
      "windows",
    ]),
  },
  planner: { folder: "server/storage/planner" },
  journal: { folder: "shared/journal" },
  trust: { folder: "shared/trust" },
  ingest: {
    files: [
      ...inFolder("server/fleet/ingest/sessions", [
        "activation-reports",
        "commands",
        "device-doubts",
        "device-quota",
        "history-proofs",
        "history-warning",
        "session-judge",
      ]),
      ...inFolder("server/fleet/ingest/uploads", [
        "announced-objects",
        "announcement",
        "announcement-answers",
        "claims",
        "confirmations",
        "earlier-tensors",
        "line-index",
        "needs",
        "parking",
        "receipts",
        "running-uploads",
        "saved-transfer",
        "spool-shares",
        "upload-scheduler",
        "waiting-uploads",
        "want-messages",
      ]),
      ...inFolder("server/fleet/ingest/downloads", [
        "coding-choice",
        "fetch-lists",
        "held-versions",
        "offers",
        "send-rates",
        "shared-rate",
      ]),
      ...inFolder("server/fleet/ingest", ["limits"]),
    ],
  },
};

export const roomNames = Object.keys(rooms);

/** The sources of a room, as paths in the checkout. */
export function filesOfRoom(root, room) {
  const { folder, files } = rooms[room];
  if (files !== undefined) return files;
  return readdirSync(join(root, folder), { recursive: true })
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`)
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .sort();
}
