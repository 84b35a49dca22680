/**
 * Creates the agent's parts and connects them: which part is notified of what happens in which. main.ts makes
 * the ports.
 */
import { certificateDue } from "../shared/wire/device-events.js";
import type { AgentParts, AgentReactions, AgentServices, Stores } from "./agent-parts.js";
import { composeConversation, composeLink, composeUploads } from "./compose-connection.js";
import { transfersFolder } from "./home/agent-home.js";
import { Activator } from "./lines/activator.js";
import { SwitchHooks } from "./lines/switch-hooks.js";
import { Credentials, withPresentKeys } from "./identity/credentials.js";
import type { DeviceTime } from "./identity/device-time.js";
import { pinOf, policyOf } from "./releases/release-pin.js";
import { openDeviceTime } from "./releases/trusted-file.js";
import { ReleaseTrust } from "./releases/release-trust.js";
import { OwnRecipes } from "./recipes/own-recipes.js";
import { Downloads } from "./offers/downloads.js";
import { Offers } from "./offers/offers.js";
import { witnessPolicy } from "./settings/witnesses.js";
import { TrainingBackends } from "./backend/training-backend.js";
import { openStores } from "./open-stores.js";
import { measureDisk } from "./measure-disk.js";
import type { DiskUse } from "./resources/disk-budget.js";
import { ClockError } from "./session/clock-error.js";
import { FileSaver } from "./saving/save-file.js";
import { ServerMessages } from "./session/server-messages.js";
import { Evaluator } from "./trainer/evaluator.js";
import { KeptStates } from "./trainer/kept-states.js";
import { SegmentsAgain } from "./trainer/segments-again.js";
import { Trainer } from "./trainer/trainer.js";
import { LiveTrials } from "./trials/live-trials.js";

/** Opens what is on the disk and connects the parts. Nothing runs yet. */
export async function composeAgent(given: AgentParts, reactions: AgentReactions): Promise<AgentServices> {
  const time = await openDeviceTime(given);
  const credentials = new Credentials({
    ...given,
    time,
    path: given.enrolmentPath,
    takeOwnerTime: (statement) => takeOwnerTime(given, { time, releases }, statement),
    askOverMqtt: (why) => {
      const { conversation } = connection;
      if (conversation.isWelcomed) reactions.report(certificateDue, why, "");
      return conversation.isWelcomed;
    },
  });
  const parts: AgentParts = { ...given, enrolment: withPresentKeys(given.enrolment, credentials) };
  const { files, home, enrolment } = parts;
  const stores = await openStores(parts);
  const { outbox, current, intakes } = stores;
  const clockError = new ClockError();
  const states = new KeptStates({ files, home });
  await states.tidy(enrolment.lines.filter((line) => parts.config.lines[line]?.spotChecks !== undefined));
  const diskUse = (): Promise<DiskUse> =>
    states.yielding(parts.profile.disk, () =>
      measureDisk({ files, home, lines: enrolment.lines, ...stores, states }),
    );
  const messages = new ServerMessages(parts);
  const releases = await openReleases(parts, time);
  const recipes = await OwnRecipes.open({
    ...parts,
    releases,
    onChange: () => {
      lines.trainer.wake();
    },
  });
  const backends = new TrainingBackends({ files, home, ...parts.profile.training });
  await backends.look();
  const shared = { states, stores, credentials, clockError, messages, releases, recipes, backends, diskUse };
  const connection = composeConnection(parts, reactions, shared);
  const lines = composeLines(parts, reactions, { ...shared, ...connection });
  const trials = await openTrials(parts, reactions, { ...shared, ...lines });
  parts.served.onChange(() => {
    lines.trainer.wake();
  });
  return {
    outbox,
    current,
    intakes,
    credentials,
    time,
    ...connection,
    releases,
    recipes,
    backends,
    ...lines,
    trials,
    states,
    diskUse,
  };
}

/** Takes the owner's statement of the time; true: it is new here. @throws RELEASE_METADATA_INVALID */
async function takeOwnerTime(
  { enrolment: { fleet }, log }: AgentParts,
  { time, releases }: Pick<AgentServices, "time" | "releases">,
  statement: string,
): Promise<boolean> {
  const { number, timeMs } = releases.ownerTime(fleet, statement);
  const before = new Date(time.permanentMs).toISOString();
  const isNew = await time.ownerStated({ number, timeMs });
  if (isNew)
    log.info("time-stated", {
      text: `the fleet's owner stated that it is ${new Date(timeMs).toISOString()} (statement ${number}); this device had learned ${before}`,
    });
  return isNew;
}

/** Services that several of the parts use. */
interface SharedServices extends Pick<
  AgentServices,
  "credentials" | "releases" | "recipes" | "backends" | "diskUse" | "states"
> {
  readonly stores: Stores;
  readonly clockError: ClockError;
  readonly messages: ServerMessages;
}

type Connection = Pick<AgentServices, "link" | "uploads" | "downloads" | "conversation">;

/** The parts that talk to the server. */
function composeConnection(
  parts: AgentParts,
  reactions: AgentReactions,
  { stores, credentials, clockError, messages, releases, backends, diskUse }: SharedServices,
): Connection {
  const { files, profile, clock } = parts;
  const link = composeLink(
    parts,
    { counter: stores.counter, credentials },
    { conversation: () => conversation, downloads: () => downloads },
    messages,
  );
  const uploads = composeUploads(parts, stores, link, diskUse);
  const downloads = new Downloads({
    files,
    folder: transfersFolder(parts.home),
    clock,
    blockBytes: profile.link.blockBytes,
    window: profile.link.window,
    send: (body) => link.send(body),
  });
  const conversation = composeConversation(parts, reactions, {
    outbox: stores.outbox,
    uploads,
    downloads,
    link,
    messages,
    credentials,
    clockError,
    diskUse,
    releases,
    backends,
  });
  return { link, uploads, downloads, conversation };
}

type LineParts = Pick<
  AgentServices,
  "hooks" | "activator" | "trainer" | "segments" | "offers" | "evaluator" | "saver"
>;

/** The parts that change what lines run: switches, trainings, offers, measurements, files of other programs. */
function composeLines(
  parts: AgentParts,
  reactions: AgentReactions,
  services: SharedServices & Connection,
): LineParts {
  const { stores, releases, recipes, backends, link, downloads, conversation } = services;
  const { current, intakes } = stores;
  const common = commonParts(parts, services);
  const hooks = new SwitchHooks({ ...common, commandOwner: parts.commandOwner });
  const activator = new Activator({ ...common, current, releases, hooks, session: () => link.session });
  const trainer = new Trainer({
    ...common,
    activator,
    intakes,
    recipes,
    random: parts.random,
    states: services.states,
    commandOwner: parts.commandOwner,
    train: parts.train,
    evaluate: parts.evaluate,
    backends,
    isOnline: () => conversation.isWelcomed,
    isSwitchedOff: () => !parts.served.trains,
    utcOffsetMinutes: parts.utcOffsetMinutes,
    onTrained: (line) => {
      reactions.onTrained(line);
    },
    onEvent: (name, text, line) => {
      reactions.report(name, text, line);
    },
  });
  const segments = new SegmentsAgain({ ...common, activator, intakes, recipes, states: services.states });
  const offers = new Offers({
    ...common,
    downloads,
    releases,
    witnesses: witnessPolicy(parts.config.witnesses),
    resumesOptimizer: (line) => common.config.lines[line]?.parameters["resumeOptimizer"] === true,
  });
  const evaluator =
    parts.evaluator ??
    new Evaluator({
      ...common,
      activator,
      intakes,
      random: parts.random,
      commandOwner: parts.commandOwner,
      evaluate: parts.evaluate,
    });
  const saver = new FileSaver({ ...common, current, random: parts.random, evaluate: parts.evaluate });
  return { hooks, activator, trainer, segments, offers, evaluator, saver };
}

function openTrials(
  parts: AgentParts,
  reactions: AgentReactions,
  services: SharedServices & LineParts,
): Promise<LiveTrials> {
  const { releases, activator, trainer, evaluator } = services;
  return LiveTrials.open({
    ...commonParts(parts, services),
    activator,
    releases,
    lines: parts.enrolment.lines,
    onEvent: (name, text, line) => {
      reactions.report(name, text, line);
    },
    inUse: () => {
      const base = trainer.running?.base;
      return new Set([...evaluator.inUse, ...(base === undefined ? [] : [base])]);
    },
  });
}

function commonParts(parts: AgentParts, { stores, clockError, diskUse }: SharedServices) {
  const { files, home, config, version, profile, enrolment, clock, log } = parts;
  return {
    files,
    home,
    config,
    version,
    profile,
    enrolment,
    outbox: stores.outbox,
    clock,
    log,
    diskUse,
    clockErrorMs: () => clockError.errorMs(clock.now(), clock.monotonic()),
  };
}

async function openReleases(
  { files, home, enrolment, config, log }: AgentParts,
  time: DeviceTime,
): Promise<ReleaseTrust> {
  const pin = await pinOf(files, home, enrolment.releases);
  const policy = policyOf(config.releases, pin, enrolment.releases?.policy);
  return await ReleaseTrust.open({
    files,
    home,
    pin,
    policy,
    nowMs: () => time.presentMs,
    onEvent: (name, text) => {
      log.warn(name, { text });
    },
  });
}
