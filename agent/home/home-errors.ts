/** Errors of an agent's home: whose it is, and where its agent listens. */
import { errorOf, StemmaError } from "../../shared/errors.js";

const unknownFormat = errorOf("HOME_FORMAT_UNKNOWN");
const unreachable = errorOf("AGENT_UNREACHABLE");

interface HomeOwner {
  readonly fleet: string;
  readonly device: string;
}

export const notAnAgentsHome = (home: string, kind: unknown, format: unknown): StemmaError =>
  unknownFormat(
    `${home} is not an agent's home of format 1 (its home.json has the kind ${String(kind)}, format ${String(format)}). Name another folder with --home, or use the Stemma that wrote it.`,
    { home },
  );
export const ownerNotNamed = (home: string, path: string, own: HomeOwner): StemmaError =>
  unknownFormat(
    `${path} is damaged: it lacks the device that the home belongs to. If that is ${own.fleet}/${own.device}, write ${JSON.stringify(own)} into it.`,
    { home },
  );
export const homeOfAnother = (home: string, found: Partial<HomeOwner>, own: HomeOwner): StemmaError =>
  new StemmaError(
    "CONFIG_INVALID",
    `${home} belongs to ${found.fleet}/${found.device}, and the enrolment is of ${own.fleet}/${own.device}. Each device has a home of its own: name another folder with --home.`,
    { home },
  );
export const noAgentRuns = (home: string): StemmaError =>
  unreachable(
    `No agent runs with the home ${home}. Start one with \`stemma agent run --home ${home}\`, or name its home.`,
    { home },
  );
export const socketNotNamed = (home: string, path: string): StemmaError =>
  unreachable(`${path} does not name the socket on which the agent listens. Start the agent again.`, {
    home,
  });
