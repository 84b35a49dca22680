/** Fleets that come about by a random order of saves, tags, holds, retirements, enrolments and activations. */
import { openHome, type HomePorts } from "../../../../../server/storage/repository/home.js";
import { fineTuned, memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";

/** Saves, tags, holds, retires and enrols, in an order that follows from the seed. */
export async function work(ports: HomePorts, random: () => number, steps: number): Promise<void> {
  const home = await openHome("/home", ports);
  const repository = await openRepository(home, "f");
  const below = (limit: number): number => Math.floor(random() * limit);
  const model = tensorsOf("base", 2, 4);
  for (let step = 0; step < steps; step++) {
    const versions = repository.versions({ includeRetired: true });
    const any = versions[below(versions.length)];
    const atMs = ports.clock.now();
    const device = `car-${below(3)}`;
    switch (any === undefined ? 0 : below(9)) {
      case 0:
      case 1:
      case 2:
        await repository.save(modelOf(fineTuned(model, `${step}/${below(4)}`)), {
          name: `m${below(3)}`,
          device,
          line: `l${below(2)}`,
          metadata: { step, even: step % 2 === 0, text: `x${step % 3}` },
          ...(any === undefined || any.state === "retired" ? {} : { bases: [any.versionId] }),
        });
        break;
      case 3:
        if (any!.state !== "retired") await repository.tag(any!.name, `t${below(3)}`, any!.versionId);
        break;
      case 4:
        if (any!.state !== "retired" && !any!.held) await repository.hold(any!.versionId, "test");
        break;
      case 5:
        await repository.retire(any!.versionId, "test").catch(() => undefined);
        break;
      case 6:
        await repository.append({
          type: "enrolled",
          ...{ atMs, device, profile: "p", lines: ["a"], publicKey: `k${step}`, tokenHash: "t" },
        });
        if (any!.state !== "retired")
          await repository.append({
            type: "assigned",
            atMs: atMs + 1,
            device,
            line: "a",
            versionId: any!.versionId,
          });
        break;
      case 7:
        if (repository.device(device) !== undefined)
          await repository.append({
            type: "activated",
            ...{ atMs, device, line: "a", versionId: any!.versionId },
            ...{ deviceAtMs: atMs, deviceClockErrorMs: 5, session: 1, number: step + 1 },
          });
        break;
      default:
        if (any!.state !== "retired")
          await repository.release(any!.versionId, "stored").catch(() => undefined);
    }
  }
  await repository.close();
  await home.close();
}

export async function closedHome() {
  const { home, ports, files } = await memoryHome();
  await home.close();
  return { ports, files };
}
