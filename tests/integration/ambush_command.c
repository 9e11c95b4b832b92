/*
 * A process of the agent's user that attacks the supervisors, which are the agent's new children.
 *
 *   ambush memory AGENT FILE   tries to open the memory of each child, to write into it
 *   ambush stop AGENT FILE     stops each child, again and again
 *   ambush wake AGENT FILE     sends SIGCONT to the newest child, again and again
 *
 * Exits after SIGTERM, if FILE.end exists, if the agent is dead, or after two minutes. FILE then
 * has the number of children that were seen and, for "memory", how many were opened.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long to try to open the memory of one child, in microseconds. */
#define MEMORY_US 3000

/* The number of children that are stopped again and again. */
#define CHILDREN 16

/* The search starts again if the newest pid is further away than this. */
#define AHEAD 4096

static volatile sig_atomic_t is_over;

static void on_term(int signal) {
  (void)signal;
  is_over = 1;
}

static long long now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The pid that was assigned last: the last word. */
static int last_pid(int loadavg) {
  char text[128];
  ssize_t length = pread(loadavg, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  const char *space = strrchr(text, ' ');
  return space != NULL ? atoi(space) : 0;
}

static int parent_of(int pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  if (fd >= 0)
    close(fd);
  text[length > 0 ? length : 0] = '\0';
  const char *end = strrchr(text, ')');
  return end != NULL ? atoi(end + 3) : 0;
}

static bool open_memory(int pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  for (long long end = now_us() + MEMORY_US; now_us() < end;) {
    int fd = open(path, O_RDWR);
    if (fd < 0)
      continue;
    close(fd);
    return true;
  }
  return false;
}

/* `seen` counts all children. */
static void stop_again(const int *children, int seen) {
  for (int i = 0; i < CHILDREN && i < seen; i++)
    kill(children[i], SIGSTOP);
}

static void wake_again(const int *children, int seen) {
  if (seen > 0)
    kill(children[(seen - 1) % CHILDREN], SIGCONT);
}

/* Stops the pid that is expected next, before anything else is known about it. */
static bool is_next_stopped(int pid) {
  for (int i = 0; i < 200; i++)
    if (kill(pid, SIGSTOP) == 0)
      return true;
  return false;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  const bool stops = strcmp(argv[1], "stop") == 0, wakes = strcmp(argv[1], "wake") == 0;
  const int agent = atoi(argv[2]);
  char end_path[512];
  snprintf(end_path, sizeof end_path, "%s.end", argv[3]);
  signal(SIGTERM, on_term);
  int loadavg = open("/proc/loadavg", O_RDONLY);
  int seen = 0, opened = 0, at = last_pid(loadavg), children[CHILDREN];
  for (long long end = now_us() + 120000000LL;
       !is_over && now_us() < end && kill(agent, 0) == 0 && access(end_path, F_OK) != 0;) {
    if (wakes)
      wake_again(children, seen);
    else if (stops && !is_next_stopped(at + 1))
      stop_again(children, seen);
    int last = last_pid(loadavg);
    if (last < at || last > at + AHEAD) {
      if (stops)
        kill(at + 1, SIGCONT); /* it may be stopped, and nobody else continues it */
      at = last;
    }
    while (at < last) {
      bool is_child = parent_of(++at) == agent;
      if (stops && !is_child)
        kill(at, SIGCONT);
      else if (is_child && (stops || wakes))
        children[seen % CHILDREN] = at;
      else if (is_child)
        opened += open_memory(at);
      seen += is_child;
    }
  }
  FILE *file = fopen(argv[3], "w");
  if (file == NULL)
    return 1;
  fprintf(file, "seen %d opened %d\n", seen, opened);
  return fclose(file) == 0 ? 0 : 1;
}
