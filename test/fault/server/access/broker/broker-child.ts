/**
 * A broker in its own process, so that a test can measure its memory and see uncaught errors. Sends its port
 * to the parent and answers the message "report".
 */
import { nodeClock, silentLog } from "../../../../../shared/adapters/node-ports.js";
import { startBroker } from "../../../../../server/access/broker/start-broker.js";
import { knowsSecret, root } from "../../../../helpers/test-broker.js";

const uncaught: string[] = [];
process.on("uncaughtException", (error) => {
  uncaught.push(String(error.stack));
});
process.on("unhandledRejection", (error) => {
  uncaught.push(`rejection: ${String(error)}`);
});

const broker = await startBroker({ root, authenticate: knowsSecret, clock: nodeClock(), log: silentLog() });
let handled = 0;
broker.onMessage(() => {
  handled++;
  return Promise.resolve();
});
let refusedFrames = 0;
broker.onEvent(({ type }) => {
  if (type === "frame-refused") refusedFrames++;
});
// The peak memory of this process in bytes, so that a peak between two reports counts.
let mostRss = 0;
const watch = setInterval(() => {
  mostRss = Math.max(mostRss, process.memoryUsage().rss);
}, 10);
process.on("message", (question) => {
  const rss = process.memoryUsage().rss;
  process.send?.({
    question,
    rss,
    mostRss: Math.max(mostRss, rss),
    uncaught,
    handled,
    refusedFrames,
    ...broker.stats(),
  });
});
process.on("disconnect", () => {
  clearInterval(watch);
  void broker.close();
});
process.send?.({ port: broker.port });
