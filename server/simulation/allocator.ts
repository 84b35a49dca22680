/** As docs/operating.md has it for a service: else glibc keeps memory that a process gave back. */
export const allocatorOfServices = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };
