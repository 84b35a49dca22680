/** A fleet's state as plain data, to compare two of them. */
import { lineKey } from "../../server/storage/repository/state/device-state.js";
import type { FleetState } from "../../server/storage/repository/state/state.js";

export function plainState({
  versions,
  names,
  activations,
  unsettled,
  evaluated,
  replayed,
  changed: _,
  ...rest
}: FleetState): unknown {
  const all = [...versions.values()];
  const nameList = [...new Set(all.map(({ name }) => name))];
  return {
    ...rest,
    versions: all,
    size: versions.size,
    sets: [unsettled, evaluated, replayed].map((set) => [[...set.values()], [...set.reversed()]]),
    names: nameList.map((name) => [name, [...names.of(name)], [...names.reversed(name)], names.last(name)]),
    activations: [...rest.devices.values()].flatMap(({ device, lastActivation }) =>
      [...lastActivation.keys()].map((line) => [device, line, [...activations.of(lineKey(device, line))]]),
    ),
  };
}
