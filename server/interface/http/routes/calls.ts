/** A route for every call in the table of operations: input read by its schema, answered as JSON. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { defined } from "../../../../shared/defined.js";
import type { CallDefinition } from "../../api/operation.js";
import { operationTable } from "../../api/operation-table.js";
import type { CallName, CallOptions, ServerOperations } from "../../api/server-operations.js";
import { readInput } from "../read-input.js";

/** `health` has its own route in app.ts, because without a token it answers less. */
const ownRoute: ReadonlySet<string> = new Set<CallName>(["health"]);

/** The operations as the caller of a request uses them. */
export type OperationsFor = (request: FastifyRequest) => ServerOperations;

export function addCallRoutes(app: FastifyInstance, operationsFor: OperationsFor): void {
  for (const [name, definition] of Object.entries(operationTable)) {
    if (definition.kind !== "call" || ownRoute.has(name)) continue;
    addCallRoute(app, definition, (request) => {
      const operations = operationsFor(request);
      return operations[name as CallName].bind(operations) as Work;
    });
  }
}

type Work = (input: object, options?: CallOptions) => Promise<unknown>;

function addCallRoute(
  app: FastifyInstance,
  definition: CallDefinition,
  workFor: (request: FastifyRequest) => Work,
): void {
  app.route({
    method: definition.method,
    url: definition.path,
    ...defined({ bodyLimit: definition.maxBodyBytes }),
    handler: async (request, reply) => {
      const input = readInput(definition, request);
      const work = workFor(request);
      const answer = definition.stopsWithClient
        ? await untilClientLeaves(request, reply, (signal) => work(input, { signal }))
        : await work(input);
      return answer === undefined ? reply.status(204).send() : answer;
    },
  });
}

/** Work whose signal aborts when the client closes its connection. */
export async function untilClientLeaves<T>(
  { raw: { socket } }: FastifyRequest,
  reply: FastifyReply,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const leave = (): void => {
    if (!reply.raw.writableEnded) abort.abort();
  };
  socket.once("close", leave);
  try {
    return await work(abort.signal);
  } finally {
    socket.off("close", leave);
  }
}
