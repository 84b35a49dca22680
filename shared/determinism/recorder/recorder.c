/*
 * Records and replays the randomness that a program draws from the system (CH §3.6, Fig. 3; CH4): a library that the
 * loader puts before the C library, so that it works below every language. Linux, glibc, x86-64 and arm64.
 *
 * Environment, set by record-run.ts and launch.c:
 *   SRECORDER_MODE    record or replay
 *   SRECORDER_GIVEN   file of records to replay
 *   SRECORDER_TAKEN   file to which the records of this run are appended, in both modes
 *   SRECORDER_STATE   file shared by all processes of the run
 *   SRECORDER_PATH    16 hex digits: the path of this process, rewritten in place by each process
 *
 * A stream is a process and a thread by their order of creation (the n-th child of a process, the n-th thread of a
 * thread), not by the order in which they run. A draw that the profile does not have gets its true value; whoever
 * compares the records of both runs finds it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef __GLIBC__
#error "the recorder needs glibc"
#endif

/* Numbers and sizes as in random-profile.ts. */
enum { GETRANDOM = 1, DEVICE, RANDOM_DEVICE, ARC4RANDOM, SYSTEM_CALL, PROCESS, LIBRARY, THREAD, KINDS };
enum { FIXED_ADDRESSES = 1 };
enum { MAX_PART = 1 << 20, MAX_BYTES = 64 << 20, SLOTS = 4096 };
enum { NOT_WRITTEN = 1, TOO_LARGE = 2 };
struct record {
  uint64_t process, thread;
  uint32_t length;
  uint8_t kind, flags, pad[2];
  char name[40]; /* the library that drew, the program, or what was loaded */
};

static enum { OFF, RECORD, REPLAY } mode;
static int taken = -1, is_forked;
static uint64_t process_path = 1;
static const unsigned char *given;
static size_t given_size;
static __thread uint64_t thread_path = 1;
static __thread unsigned thread_children;
/* Of this thread's stream: where in the given records the search for the next one of a kind goes on. */
static __thread struct {
  uint64_t process, thread;
  size_t at[KINDS];
} cursor;

/* ---- the kernel, without the C library ---- */
static long raw(long n, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
  return x0;
#else
#error "the recorder knows x86-64 and arm64"
#endif
}
static int raw_open(const char *path, int flags) {
  return (int)raw(SYS_openat, AT_FDCWD, (long)path, flags, 0600, 0, 0);
}
static int own_pid(void) { return (int)raw(SYS_getpid, 0, 0, 0, 0, 0, 0); }

/* ---- numbers of processes, shared by all of them ---- */
struct slot {
  uint64_t path;
  int32_t pid;
  uint32_t children;
};
static struct state {
  uint32_t failure, max_bytes; /* of the records, as the caller wrote it */
  struct slot slots[SLOTS];
} *state;

static uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
  a *= 0xff51afd7ed558ccdu;
  a ^= a >> 33;
  return a ? a : 1;
}
static struct slot *slot_of(uint64_t path) {
  for (unsigned i = 0, at = (unsigned)(path % SLOTS); i < SLOTS; i++, at = (at + 1) % SLOTS) {
    uint64_t none = 0, *own = &state->slots[at].path;
    if (__atomic_compare_exchange_n(own, &none, path, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) || none == path)
      return &state->slots[at];
  }
  return &state->slots[0];
}
static uint64_t child_of(uint64_t path) {
  return mix(path, 7u * __atomic_add_fetch(&slot_of(path)->children, 1, __ATOMIC_SEQ_CST));
}
static void enter(uint64_t path) {
  process_path = path;
  slot_of(path)->pid = own_pid();
  char text[17], *variable = getenv("SRECORDER_PATH");
  if (!variable || strlen(variable) != 16) return;
  snprintf(text, sizeof text, "%016llx", (unsigned long long)path);
  memcpy(variable, text, 16);
}

/* ---- records ---- */
static void fail(uint32_t why) {
  state->failure = why;
  dprintf(2, "stemma: the randomness could not be recorded: %s\n", why == TOO_LARGE ? "too much" : "disk");
  for (;;) raw(SYS_exit_group, 1, 0, 0, 0, 0, 0);
}
static void write_record(int kind, const char *name, int flags, const void *value, size_t length) {
  struct record r = { process_path, thread_path, (uint32_t)length, (uint8_t)kind, (uint8_t)flags, { 0 }, "" };
  const char *slash = name ? strrchr(name, '/') : NULL;
  if (name) strncpy(r.name, slash ? slash + 1 : name, sizeof r.name - 1);
  struct iovec parts[2] = { { &r, sizeof r }, { (void *)value, length } };
  if (writev(taken, parts, 2) != (ssize_t)(sizeof r + length)) fail(NOT_WRITTEN);
  if (lseek(taken, 0, SEEK_CUR) > state->max_bytes) fail(TOO_LARGE);
}
static void replay_value(int kind, void *value, size_t length) {
  if (cursor.process != process_path || cursor.thread != thread_path) {
    memset(&cursor, 0, sizeof cursor);
    cursor.process = process_path;
    cursor.thread = thread_path;
  }
  for (size_t at = cursor.at[kind], next; at + sizeof(struct record) <= given_size; at = next) {
    struct record r;
    memcpy(&r, given + at, sizeof r);
    next = at + sizeof r + r.length;
    if (next > given_size) return;
    if (r.process != process_path || r.thread != thread_path || r.kind != kind) continue;
    if (r.length == length) memcpy(value, given + at + sizeof r, length);
    cursor.at[kind] = next;
    return;
  }
  cursor.at[kind] = given_size;
}
static void pass(int kind, void *value, size_t length, void *caller) {
  if (mode == OFF) return;
  Dl_info info = { 0 };
  if (mode == REPLAY) replay_value(kind, value, length);
  write_record(kind, dladdr(caller, &info) ? info.dli_fname : "", 0, value, length);
}
/* Draws all of it. Returns 0, or what the kernel refused it with. */
static int draw(int kind, void *target, size_t length, void *caller) {
  for (size_t done = 0, part; done < length; done += part) {
    part = length - done < MAX_PART ? length - done : MAX_PART;
    for (size_t at = 0; at < part;) {
      long got = raw(SYS_getrandom, (long)target + (long)(done + at), (long)(part - at), 0, 0, 0, 0);
      if (got < 0 && got != -EINTR) return (int)-got;
      if (got > 0) at += (size_t)got;
    }
    pass(kind, (char *)target + done, part, caller);
  }
  return 0;
}
#define CALLER __builtin_return_address(0)
static ssize_t drawn(int error, size_t length) {
  if (error) errno = error;
  return error ? -1 : (ssize_t)length;
}

/* ---- calls of the C library ---- */
ssize_t getrandom(void *p, size_t n, unsigned flags) {
  (void)flags;
  return drawn(draw(GETRANDOM, p, n, CALLER), n);
}
int getentropy(void *p, size_t n) { return (int)drawn(n > 256 ? EIO : draw(GETRANDOM, p, n, CALLER), 0); }
static uint32_t word(int kind, void *caller) {
  uint32_t value = 0;
  draw(kind, &value, sizeof value, caller);
  return value;
}
uint32_t arc4random(void) { return word(ARC4RANDOM, CALLER); }
void arc4random_buf(void *p, size_t n) { draw(ARC4RANDOM, p, n, CALLER); }
uint32_t arc4random_uniform(uint32_t top) {
  uint32_t value, least = top < 2 ? 0 : -top % top;
  if (top < 2) return 0;
  do value = word(ARC4RANDOM, CALLER);
  while (value < least);
  return value % top;
}
/* std::random_device of libstdc++: by default an instruction of the processor, which no call to the kernel shows. */
unsigned _ZNSt13random_device9_M_getvalEv(void *self) {
  (void)self;
  return word(RANDOM_DEVICE, CALLER);
}
long syscall(long n, ...) {
  long v[6];
  va_list list;
  va_start(list, n);
  for (int i = 0; i < 6; i++) v[i] = va_arg(list, long);
  va_end(list);
  if (mode && n == SYS_getrandom) return drawn(draw(SYSTEM_CALL, (void *)v[0], (size_t)v[1], CALLER), (size_t)v[1]);
  long result = raw(n, v[0], v[1], v[2], v[3], v[4], v[5]);
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

/* ---- /dev/urandom and /dev/random ---- */
/* By descriptor: one may be the device until it was looked at, since a program may begin with it as its input. */
static unsigned char is_other[4096];
static int names_device(const char *s) { return s && (!strcmp(s, "/dev/urandom") || !strcmp(s, "/dev/random")); }
static int is_device(int fd) {
  struct stat found;
  if (!mode || fd < 0 || fd >= (int)sizeof is_other || is_other[fd]) return 0;
  /* Descriptors get another meaning by ways that are not seen here, so the name that was opened is not enough. */
  is_other[fd] = fstat(fd, &found) || !S_ISCHR(found.st_mode) || major(found.st_rdev) != 1 ||
                 (minor(found.st_rdev) != 8 && minor(found.st_rdev) != 9);
  return !is_other[fd];
}
static int opened(int fd, int may_be_device) {
  if (fd >= 0 && fd < (int)sizeof is_other) is_other[fd] = !may_be_device;
  return fd;
}
static int open_it(int folder, const char *s, int flags, int permissions) {
  int fd = (int)raw(SYS_openat, folder, (long)s, flags, permissions, 0, 0);
  if (fd >= 0) return opened(fd, names_device(s));
  errno = -fd;
  return -1;
}
#define OPEN(name, folder, ...)                                          \
  int name(__VA_ARGS__, ...) {                                           \
    va_list list;                                                        \
    va_start(list, flags);                                               \
    int permissions = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0; \
    va_end(list);                                                        \
    return open_it(folder, path, flags, permissions);                    \
  }
OPEN(open, AT_FDCWD, const char *path, int flags)
OPEN(open64, AT_FDCWD, const char *path, int flags)
OPEN(openat, folder, int folder, const char *path, int flags)
OPEN(openat64, folder, int folder, const char *path, int flags)
int __open_2(const char *path, int flags) { return open_it(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_it(AT_FDCWD, path, flags, 0); }

#define REAL(name)                                   \
  static __typeof__(&name) real;                     \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
int dup(int fd) {
  REAL(dup);
  return opened(real(fd), 1);
}
int dup2(int fd, int to) {
  REAL(dup2);
  return opened(real(fd, to), 1);
}
int dup3(int fd, int to, int flags) {
  REAL(dup3);
  return opened(real(fd, to, flags), 1);
}
static int fcntl_it(int fd, int what, va_list list, __typeof__(&fcntl) real) {
  int result = real(fd, what, va_arg(list, void *));
  return what == F_DUPFD || what == F_DUPFD_CLOEXEC ? opened(result, 1) : result;
}
#define FCNTL(name)                                \
  int name(int fd, int what, ...) {                \
    va_list list;                                  \
    va_start(list, what);                          \
    REAL(name);                                    \
    int result = fcntl_it(fd, what, list, real);   \
    va_end(list);                                  \
    return result;                                 \
  }
FCNTL(fcntl)
FCNTL(fcntl64)
ssize_t read(int fd, void *p, size_t n) {
  if (is_device(fd)) return drawn(draw(DEVICE, p, n, CALLER), n);
  REAL(read);
  return real(fd, p, n);
}
ssize_t __read_chk(int fd, void *p, size_t n, size_t room) {
  if (n > room) abort();
  return read(fd, p, n);
}
static ssize_t read_stream(void *caller, char *p, size_t n) { return drawn(draw(DEVICE, p, n, caller), n); }
static FILE *fopen_it(const char *path, const char *how, __typeof__(&fopen) real, void *caller) {
  Dl_info info = { 0 };
  if (!mode || !names_device(path)) return real(path, how);
  /* std::ifstream takes the descriptor out of it and reads that. */
  if (dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libstdc++")) {
    FILE *file = real(path, how);
    if (file) opened(fileno(file), 1);
    return file;
  }
  return fopencookie(caller, how, (cookie_io_functions_t){ .read = read_stream });
}
FILE *fopen(const char *path, const char *how) {
  REAL(fopen);
  return fopen_it(path, how, real, CALLER);
}
FILE *fopen64(const char *path, const char *how) {
  REAL(fopen64);
  return fopen_it(path, how, real, CALLER);
}

/* ---- processes and threads ---- */
static uint64_t next_child;
static void before_fork(void) { next_child = child_of(process_path); }
static void in_child(void) {
  thread_path = 1;
  thread_children = 0;
  is_forked = 1;
  enter(next_child);
}
struct start {
  void *(*run)(void *);
  void *argument;
  uint64_t path;
};
static void *started(void *given_start) {
  struct start own = *(struct start *)given_start;
  free(given_start);
  thread_path = own.path;
  return own.run(own.argument);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  Dl_info info = { 0 };
  struct start *start = malloc(sizeof *start);
  REAL(pthread_create);
  if (!start) return EAGAIN;
  *start = (struct start){ run, argument, mix(thread_path, 3u * ++thread_children) };
  if (mode) write_record(THREAD, dladdr(CALLER, &info) ? info.dli_fname : "", 0, NULL, 0);
  int result = real(thread, attributes, started, start);
  if (result) free(start);
  return result;
}
static int write_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size, (void)data;
  if (info->dlpi_name && info->dlpi_name[0] == '/') write_record(LIBRARY, info->dlpi_name, 0, NULL, 0);
  return 0;
}
/* The libraries that were loaded tell which frameworks ran. A copy by fork has those of its parent. */
__attribute__((destructor)) static void end(void) {
  if (mode && !is_forked) dl_iterate_phdr(write_library, NULL);
}

static int map_state(const char *path) {
  int fd = raw_open(path, O_RDWR | O_CREAT | O_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof *state)) return 0;
  void *mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  raw(SYS_close, fd, 0, 0, 0, 0, 0);
  state = mapped == MAP_FAILED ? NULL : mapped;
  return state != NULL;
}
/* Room for the records is taken in both modes: all that is mapped later has the same addresses in both. */
static int map_given(const char *path, int is_replay) {
  struct stat found;
  void *room = mmap(NULL, MAX_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!is_replay) return 1;
  int fd = raw_open(path, O_RDONLY | O_CLOEXEC);
  if (room == MAP_FAILED || fd < 0 || fstat(fd, &found) || found.st_size <= 0 || found.st_size > MAX_BYTES) return 0;
  given_size = (size_t)found.st_size;
  given = mmap(room, given_size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  raw(SYS_close, fd, 0, 0, 0, 0, 0);
  return given != MAP_FAILED;
}
__attribute__((constructor)) static void begin(void) {
  const char *how = getenv("SRECORDER_MODE"), *path = getenv("SRECORDER_PATH");
  const char *from = getenv("SRECORDER_GIVEN"), *to = getenv("SRECORDER_TAKEN");
  const char *shared = getenv("SRECORDER_STATE");
  if (!how || !path || !from || !to || !shared) return;
  int is_replay = !strcmp(how, "replay"), fd = raw_open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC);
  if (fd < 0 || !map_state(shared) || !map_given(from, is_replay)) {
    dprintf(2, "stemma: the randomness of a process is not recorded: its files cannot be opened\n");
    return;
  }
  /* High, so that the program's own descriptors have the numbers that they have without a recorder. */
  taken = fcntl(fd, F_DUPFD_CLOEXEC, 900);
  if (taken < 0) taken = fd;
  else raw(SYS_close, fd, 0, 0, 0, 0, 0);
  uint64_t parent = strtoull(path, NULL, 16);
  int32_t holder = slot_of(parent)->pid;
  /* The same process runs another program; or a child that was not forked, as of vfork and posix_spawn. */
  enter(holder == own_pid() ? mix(parent, 0x65786563) : holder ? child_of(parent) : parent);
  mode = is_replay ? REPLAY : RECORD;
  pthread_atfork(before_fork, NULL, in_child);
  int flags = personality(0xffffffff) & ADDR_NO_RANDOMIZE ? FIXED_ADDRESSES : 0;
  write_record(PROCESS, program_invocation_name, flags, NULL, 0);
}
