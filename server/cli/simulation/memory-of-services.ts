/**
 * Environment of a server that gives memory back, as examples/systemd/stemma-server.service and
 * examples/docker/Dockerfile set it (docs/operating.md, "Services").
 */
export const memoryOfServices = {
  MALLOC_ARENA_MAX: "2",
  MALLOC_TRIM_THRESHOLD_: "131072",
  NODE_OPTIONS: "--max-semi-space-size=2",
};
