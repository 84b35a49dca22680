/*
 * Lists the shared libraries that a process has when it ends, in the order in which they were loaded: a library that
 * the loader puts before all others, built without the C library, so that programs of every C library take it.
 *
 * Environment: SRECORDER_LIBRARIES, the file to which a process appends its list in one write:
 *   P<pid> <program>   L<path> for each library   E
 *
 * A copy by fork is not listed, nor what a process was before it ran another program. A process that is killed, or
 * that asks the kernel itself to end it, leaves no list.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sizes as in program-libraries.ts. */
enum { MAX_LIST = 1 << 18, MAX_FILE = 1 << 20 };
static char place[4096], list[MAX_LIST];
static size_t used;
static int own_pid, is_cut;

static void put(const char *text, size_t length) {
  if (length > sizeof list - used - 2) {
    is_cut = 1;
    return;
  }
  for (size_t i = 0; i < length; i++) list[used++] = text[i] == '\n' ? '?' : text[i];
}
static void put_number(unsigned long number) {
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  put(digits + at, sizeof digits - at);
}
static int put_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size, (void)data;
  const char *name = info->dlpi_name;
  if (!name || name[0] != '/') return 0;
  put("L", 1);
  put(name, strlen(name));
  if (!is_cut) list[used++] = '\n';
  return is_cut;
}
__attribute__((destructor)) static void end(void) {
  char program[4096];
  if (!own_pid || getpid() != own_pid) return;
  int pid = own_pid;
  own_pid = 0;
  ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  /* After a list that was cut, this one begins in a line of its own. */
  list[used++] = '\n';
  put("P", 1);
  put_number((unsigned long)pid);
  put(" ", 1);
  put(program, length > 0 ? (size_t)length : 0);
  list[used++] = '\n';
  dl_iterate_phdr(put_library, NULL);
  if (is_cut) return;
  list[used++] = 'E';
  list[used++] = '\n';
  /* Not to wait where a program put a pipe in its place. */
  int file = open(place, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file < 0) return;
  /* What does not fit is left out as a whole, and so is half a list of a full disk: it has no end. */
  if (lseek(file, 0, SEEK_END) + (off_t)used <= MAX_FILE && write(file, list, used) < 0) used = 0;
  close(file);
}
/* Shells end so, past all destructors. */
void _exit(int status) {
  end();
  for (;;) syscall(SYS_exit_group, status);
}
void _Exit(int status) { _exit(status); }
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SRECORDER_LIBRARIES");
  if (!path || strlen(path) >= sizeof place) return;
  strcpy(place, path);
  own_pid = getpid();
}
