/**
 * What goes wrong in a simulated fleet: processes are killed, power fails, disks are full or fail their fsyncs, clocks
 * are set, networks go. Which kinds a simulation has, and when, follows from its seed: some faults hide others.
 */
import { Choice } from "./choice.js";
import type { Machine } from "./machine.js";
import type { Vehicle } from "./vehicle.js";
import type { World } from "./world.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

interface FaultKind {
  readonly name: string;
  /** Mean time between two, for the server or for all devices together. */
  readonly everyMs: number;
  happen(world: World, choice: Choice): void;
}

export const faultKinds: readonly FaultKind[] = [
  {
    name: "server-killed",
    everyMs: 10 * hourMs,
    happen: ({ server }) => {
      server.end("killed");
      server.startLater();
    },
  },
  {
    name: "server-power",
    everyMs: 16 * hourMs,
    happen: ({ server }, choice) => {
      server.end("lost its power");
      server.startLater(choice.waitMs(10 * minuteMs));
    },
  },
  {
    name: "server-disk-full",
    everyMs: 18 * hourMs,
    happen: (world, choice) => {
      fill(world, world.server.machine, choice);
    },
  },
  {
    name: "server-fsync",
    everyMs: 18 * hourMs,
    happen: ({ server, events }) => {
      events.note("server", "fsync-will-fail");
      server.machine.disk.syncsToFail = 1;
    },
  },
  {
    name: "server-clock",
    everyMs: 30 * hourMs,
    happen: (world, choice) => {
      setClock(world, world.server.machine, choice);
      mendServerClock(world, choice);
    },
  },
  {
    name: "device-killed",
    everyMs: 4 * hourMs,
    happen: (world, choice) => {
      driving(world, choice)?.crash("killed");
    },
  },
  {
    name: "device-power",
    everyMs: 4 * hourMs,
    happen: (world, choice) => {
      driving(world, choice)?.crash("lost its power");
    },
  },
  {
    name: "device-disk-full",
    everyMs: 8 * hourMs,
    happen: (world, choice) => {
      const vehicle = driving(world, choice);
      if (vehicle !== undefined) fill(world, vehicle.machine, choice);
    },
  },
  {
    name: "device-fsync",
    everyMs: 8 * hourMs,
    happen: (world, choice) => {
      const vehicle = driving(world, choice);
      if (vehicle === undefined) return;
      world.events.note(vehicle.name, "fsync-will-fail");
      vehicle.machine.disk.syncsToFail = 1;
    },
  },
  {
    name: "device-clock",
    everyMs: 8 * hourMs,
    happen: (world, choice) => {
      const vehicle = choice.of(world.vehicles);
      if (vehicle !== undefined) setClock(world, vehicle.machine, choice);
    },
  },
  {
    name: "network",
    everyMs: 2 * hourMs,
    happen: (world, choice) => {
      const vehicle = driving(world, choice);
      if (vehicle === undefined) return;
      world.events.note(vehicle.name, "network-gone");
      vehicle.hasNetwork = false;
      vehicle.connection?.failSilently();
      world.time.after(choice.waitMs(10 * minuteMs), () => {
        world.events.note(vehicle.name, "network-back");
        vehicle.hasNetwork = true;
      });
    },
  },
];

function driving({ vehicles }: World, choice: Choice): Vehicle | undefined {
  return choice.of(vehicles.filter(({ machine }) => machine.isRunning));
}

function fill({ time, events }: World, { name, disk }: Machine, choice: Choice): void {
  events.note(name, "disk-full");
  disk.isFull = true;
  time.after(choice.waitMs(10 * minuteMs), () => {
    events.note(name, "disk-free");
    disk.isFull = false;
  });
}

/** Sets the clock wrong by up to two days, or right. */
function setClock({ events }: World, machine: Machine, choice: Choice): void {
  const size = choice.of([0, minuteMs, hourMs, 2 * dayMs]) ?? 0;
  machine.wallErrorMs = Math.round(choice.between(-size, size));
  events.note(machine.name, "clock-set", `${machine.wallErrorMs} ms ahead`);
}

/** After a while somebody looks after a server that does not trust its clock: sets it right, or takes it as it is. */
function mendServerClock(world: World, choice: Choice): void {
  const { server, time, events } = world;
  time.after(choice.waitMs(hourMs), () => {
    if (server.running === undefined) mendServerClock(world, choice);
    if (!server.isClockInDoubt) return;
    if (choice.chance(0.5)) {
      server.machine.wallErrorMs = 0;
      events.note("server", "clock-set", "right");
      mendServerClock(world, choice);
    } else {
      events.note("people", "clock-accepted");
      server.acceptClock();
    }
  });
}

export class Faults {
  #isOver = false;
  readonly #choice: Choice;
  readonly kinds: readonly FaultKind[];

  /** @param share of the kinds of faults that this simulation has */
  constructor(
    private readonly world: World,
    share: number,
  ) {
    this.#choice = new Choice(world.seed, "faults");
    this.kinds = faultKinds.filter(() => this.#choice.chance(share));
  }

  start(): void {
    for (const kind of this.kinds) this.#later(kind);
  }

  /** Nothing goes wrong any more, and what can be mended is. */
  stop(): void {
    this.#isOver = true;
    const { server, vehicles } = this.world;
    for (const { disk } of [server.machine, ...vehicles.map(({ machine }) => machine)]) {
      disk.isFull = false;
      disk.syncsToFail = 0;
    }
    for (const vehicle of vehicles) vehicle.hasNetwork = true;
    if (server.isClockInDoubt) server.acceptClock();
    server.start();
  }

  #later(kind: FaultKind): void {
    this.world.time.after(this.#choice.waitMs(kind.everyMs), () => {
      if (this.#isOver) return;
      kind.happen(this.world, this.#choice);
      this.#later(kind);
    });
  }
}
