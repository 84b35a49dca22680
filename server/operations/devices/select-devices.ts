/** Finds which devices of a fleet a selection means, and sets their labels. */
import type { CallOutput, OperationInput } from "../../interface/api/server-operations.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { checkLabels, labelsAfter } from "../../storage/repository/state/device-labels.js";
import { deviceMatcher, type SelectableDevice } from "../../storage/selection/match-device.js";
import { parseSelection } from "../../storage/selection/parse-selection.js";
import { noLabelNamed } from "./device-errors.js";

/**
 * The test of a selection on this fleet's devices.
 * @param nowMs milliseconds since 1970
 * @throws SELECTION_INVALID, MODEL_NOT_FOUND
 */
export function selectionTest(
  repository: FleetRepository,
  selection: string,
  nowMs: number,
): (device: Omit<SelectableDevice, "labels"> & Partial<Pick<SelectableDevice, "labels">>) => boolean {
  const test = deviceMatcher(parseSelection(selection), {
    nowMs,
    resolve: (model) => repository.resolve(model).versionId,
    familyOf: (versionId) =>
      new Set([
        versionId,
        ...repository.descendants(versionId).descendants.map(({ version }) => version.versionId),
      ]),
  });
  return (device) => test({ ...device, labels: device.labels ?? {} });
}

/**
 * Labels the devices, all or none.
 * @param devices names of devices of the fleet
 * @param atMs milliseconds since 1970
 * @throws LABEL_INVALID
 */
export async function labelDevices(
  repository: FleetRepository,
  devices: readonly string[],
  {
    labels,
    dryRun = false,
    atMs,
  }: Pick<OperationInput<"labelDevices">, "labels" | "dryRun"> & { readonly atMs: number },
): Promise<CallOutput<"labelDevices">> {
  if (Object.keys(labels).length === 0) throw noLabelNamed();
  const facts = devices.map((device) => ({ type: "labelled" as const, atMs, device, labels }));
  const known = facts.map(({ device }) => repository.device(device)?.labels ?? {});
  facts.forEach((fact, index) => {
    checkLabels(known[index] ?? {}, fact);
  });
  if (!dryRun && facts.length > 0) await repository.append(...facts);
  return devices.map((device, index) => ({ device, labels: labelsAfter(known[index] ?? {}, labels) }));
}
