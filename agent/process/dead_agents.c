/*
 * The name of each process is read first: that waits for nobody. The command line is read only of
 * processes that are called as a supervisor, and that cannot make the reader wait.
 */
#include "agent/process/dead_agents.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process_table.h"
#include "agent/process/supervisor.h"
#include "base/clock.h"

/* Anybody may be called so; then a start is delayed a little. */
static bool is_called_supervisor(pid_t pid) {
  char name[32];
  return process_table_read_file(pid, "comm", name, sizeof name) > 0 &&
         strcmp(name, SUPERVISOR_NAME "\n") == 0;
}

/* The title is "agent-supervisor JOB PID", with the agent's pid. */
static bool has_lost_agent(pid_t pid, const char *job) {
  char title[128];
  if (!is_called_supervisor(pid))
    return false;
  process_table_command(pid, title, sizeof title);
  size_t length = strlen(job);
  const char *at = title;
  if (strncmp(at, SUPERVISOR_NAME " ", sizeof SUPERVISOR_NAME) != 0)
    return false;
  at += sizeof SUPERVISOR_NAME;
  if (strncmp(at, job, length) != 0 || at[length] != ' ')
    return false;
  const pid_t agent = (pid_t)strtol(at + length, NULL, 10);
  return agent > 0 && process_table_parent(pid) != agent;
}

size_t dead_agents_count_supervisors(const char *job) {
  const int64_t end_ms = clock_monotonic_ms() + DEAD_AGENTS_MS;
  size_t supervisors = 0, looked_at = 0;
  DIR *proc = process_table_is_known() ? opendir("/proc") : NULL;
  if (proc == NULL)
    return 0;
  for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
    char *end;
    long pid = strtol(entry->d_name, &end, 10);
    if (*end != '\0' || pid <= 0)
      continue;
    if (++looked_at > DEAD_AGENTS_PROCESSES_MAX || clock_monotonic_ms() >= end_ms)
      break;
    if (!has_lost_agent((pid_t)pid, job))
      continue;
    (void)kill((pid_t)pid, SIGCONT);
    supervisors++;
  }
  closedir(proc);
  return supervisors;
}
