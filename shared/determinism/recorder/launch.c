/*
 * launch LIBRARY PROGRAM ARGUMENTS...: starts a program with the recorder, and with addresses that are not chosen at
 * random where the system allows that (each process records whether they are). It ends with whoever started it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **words) {
  char libraries[8192];
  const char *others = getenv("LD_PRELOAD");
  if (count < 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  personality(ADDR_NO_RANDOMIZE);
  snprintf(libraries, sizeof libraries, "%s%s%s", words[1], others && *others ? ":" : "", others ? others : "");
  setenv("LD_PRELOAD", libraries, 1);
  execvp(words[2], words + 2);
  perror(words[2]);
  return 127;
}
